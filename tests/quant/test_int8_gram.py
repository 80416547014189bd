"""Sums of products of rounded inputs, made of integers."""

import pytest
import torch
from torch import Tensor

from quant.machine.products import integers_are_fast
from quant.rounding import int8_gram as module
from quant.rounding.activations import Rounded, int8_round_trip
from quant.rounding.int8_gram import int8_gram

# Without these instructions, sums of two products may not fit their 16 bits.
pytestmark = pytest.mark.skipif(
    not integers_are_fast(), reason="this processor multiplies int8 no faster than floats"
)


def exact(inputs: list[Tensor]) -> Tensor:
    rows = torch.cat([int8_round_trip(x).flatten(0, -2) for x in inputs]).double()
    return rows.T @ rows


def inputs(columns: int, seed: int = 0, batches: int = 3) -> list[Tensor]:
    """Batches (windows, seq_len, columns) of tokens whose sizes differ."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.rand(columns, generator=generator)
    return [
        torch.randn(4, 64, columns, generator=generator)
        * sizes
        * torch.randn(4, 64, 1, generator=generator).exp()
        + 0.3
        for _ in range(batches)
    ]


def check(inputs: list[Tensor], columns: int) -> None:
    """Within the rounding of W Q: half of a unit of 2^-15, times int8, in each of the tokens, which
    are independent: below sqrt(tokens) * 4 * median * 2^-16 * 128^2 / sqrt(3) with four sigmas."""
    found = int8_gram(map(Rounded.of, inputs), columns)
    used = inputs[0].shape[-1]
    rows = torch.cat([x.flatten(0, -2) for x in inputs])
    scale = (rows.amax(1).clamp_min(0) - rows.amin(1).clamp_max(0)) / 255
    # v and k are sums of float32: 2^-24 of each, of which there are as many.
    wanted = exact(inputs)
    bound = 4 * len(rows) ** 0.5 * 4 * scale.square().median() * 2**-16 * 128 * 128 / 3**0.5
    bound = bound + 2**-22 * wanted.diagonal().max()
    difference = (found[:used, :used].double() - wanted).triu().abs()
    assert difference.max() <= bound
    assert not found[used:].any() and not found[:, used:].any()


@pytest.mark.parametrize(("used", "columns"), [(64, 64), (90, 96), (1100, 1120)])
def test_sums_are_those_of_floats(used: int, columns: int) -> None:
    check(inputs(used), columns)


def test_a_token_a_thousand_times_larger_spoils_nothing() -> None:
    given = inputs(96)
    for x in given:
        x[:, 0] *= 1000
    found = int8_gram(map(Rounded.of, given), 96).double().triu()
    wanted = exact(given).triu()
    assert (found - wanted).norm() < 1e-6 * wanted.norm()
    # What the other tokens add is there, to 1e-3 of it, beside sums a million times larger.
    others = exact([x[:, 1:] for x in given]).triu()
    large = exact([x[:, :1] for x in given]).triu()
    small = (large.abs() < 100 * others.diagonal().mean()) & (others != 0)
    assert ((found - wanted).abs()[small] < 1e-3 * others.diagonal().mean()).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_inputs_of_one_sign(sign: int) -> None:
    """Their zero points are at an end."""
    check([sign * x.abs() for x in inputs(64)], 64)


def test_tokens_of_zeros() -> None:
    given = inputs(64)
    given[1].zero_()
    check(given, 64)
    assert not int8_gram([Rounded.of(torch.zeros(2, 5, 64))], 64).any()


def test_many_tokens_are_added_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = int8_gram(map(Rounded.of, inputs(64, batches=5)), 64)
    monkeypatch.setattr(module, "TOGETHER", 64 * 300)
    monkeypatch.setattr(module, "PIECE", 64 * 50)
    monkeypatch.setattr("quant.rounding.gptq._GRAM_ROWS", 24)
    parts = int8_gram(map(Rounded.of, inputs(64, batches=5)), 64)
    assert (whole - parts).triu().abs().max() < 1e-4 * whole.diagonal().max()


def test_no_inputs() -> None:
    assert not int8_gram([], 64).any()
