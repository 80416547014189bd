"""Quantized linears as products of integers."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from quant.integers import dequantized_once, row_units
from quant.method import Method
from quant.modules import QuantizedLinear, QuantizedWeight
from quant.operators import dequantized
from quant.rotation.inputs import rotate_blocks
from quant.rounding import activations
from quant.rounding.activations import Rounded, int8_codes
from quant.rounding.nearest import round_groups, round_int8
from quant.scheme import Scheme

NEAREST = Scheme("rtn4").choice


def weights(generator: torch.Generator) -> dict[str, QuantizedWeight]:
    rows = torch.randn(64, 192, generator=generator) * torch.rand(64, 1, generator=generator).exp()
    rows[3] = 0
    searched = Method(scales="searched", rounding="nearest")
    return {
        **{f"{b} bits": round_groups(rows, b, 32, "w", searched) for b in (2, 3, 4, 5, 6)},
        "groups of 64": round_groups(rows, 4, 64, "w", NEAREST),
        "int8": round_int8(rows, "w"),
        "one group": round_groups(rows[:, :32].contiguous(), 4, 32, "w", NEAREST),
    }


def test_what_is_left_of_a_weight_without_its_units_is_exact_in_bfloat16() -> None:
    for name, weight in weights(torch.Generator().manual_seed(1)).items():
        units = row_units(weight.scales)
        left = dequantized(weight.values, weight.scales / units)
        assert torch.equal(left.bfloat16().float(), left), name
        assert torch.equal(left * units, dequantized(weight.values, weight.scales)), name


@pytest.mark.parametrize("odd", range(1, 16, 2))
def test_every_pair_of_levels_has_a_unit(odd: int) -> None:
    """All multiples of a row's float that 4 bits allow, alone and together."""
    multiples = torch.arange(1, 16.0)
    scales = torch.cat([multiples.repeat(16, 1), multiples.unsqueeze(1).repeat(1, 15)]) * odd
    values = torch.full((len(scales), 15 * 32), -7, dtype=torch.int8)
    left = dequantized(values, scales / row_units(scales))
    assert torch.equal(left.bfloat16().float(), left)


def test_linears_with_one_input_round_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = round_groups(torch.randn(16, 96), 4, 32, "w", NEAREST)
    pair = nn.ModuleList([QuantizedLinear(weight, 96), QuantizedLinear(weight, 96)])
    x, other = torch.randn(2, 3, 96)
    rounded: list[Tensor] = []
    original = activations.int8_codes

    def watched(x: Tensor) -> tuple[Tensor, Tensor]:
        rounded.append(x)
        return original(x)

    monkeypatch.setattr(activations, "int8_codes", watched)
    with dequantized_once(pair):
        first = [linear(x) for linear in pair]
        second = pair[0](other)
        again = pair[1](x)
    assert len(rounded) == 3
    assert torch.equal(first[0], first[1]) and torch.equal(first[0], again)
    torch.testing.assert_close(second, pair[0](other), rtol=0, atol=1e-5)


def test_one_input_of_linears_of_other_widths_and_rotations() -> None:
    generator = torch.Generator().manual_seed(2)
    weight = round_groups(torch.randn(16, 96, generator=generator), 4, 32, "w", NEAREST)
    rotated = QuantizedWeight(weight.values, weight.scales, weight.type, rotated=32)
    wide = round_groups(torch.randn(16, 90, generator=generator), 4, 64, "w", NEAREST)
    linears = [QuantizedLinear(each, 90) for each in (weight, rotated, wide)]
    linears[1] = QuantizedLinear(rotated, 96)
    for x in (torch.randn(3, 90, generator=generator), torch.randn(3, 96, generator=generator)):
        chosen = [each for each in linears if each.in_features == x.shape[-1]]
        expected = [linear(x) for linear in chosen]
        with dequantized_once(nn.ModuleList(chosen)):
            for linear, wanted in zip(chosen, expected, strict=True):
                torch.testing.assert_close(linear(x), wanted, rtol=0, atol=1e-5)


def test_rounded_inputs_come_back_from_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "PIECE", 7 * 24)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(2, 5, 24, generator=generator) * torch.rand(2, 5, 1, generator=generator).exp()
    x[0, 3] = 0
    packed = Rounded.of(x).packed()
    assert packed.dtype is torch.int8 and packed.shape == (2, 5, 24 + 8)
    codes, scale = int8_codes(x)
    again = Rounded.unpacked(packed)
    assert torch.equal(again.codes(), codes) and torch.equal(again.scale, scale)


@pytest.mark.parametrize("rotated", [0, 32])
def test_a_linear_takes_inputs_that_are_rounded_already(rotated: int) -> None:
    generator = torch.Generator().manual_seed(4)
    weight = round_groups(torch.randn(16, 96, generator=generator), 4, 64, "w", NEAREST)
    linear = QuantizedLinear(replace(weight, rotated=rotated), 96)
    x = torch.randn(2, 3, 96, generator=generator)
    with dequantized_once(linear):
        assert torch.equal(linear(Rounded.of(rotate_blocks(x, rotated)).packed()), linear(x))
