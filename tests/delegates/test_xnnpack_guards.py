"""Every weight that XNNPACK would compute wrongly is refused; those it computes right are not."""

from pathlib import Path

import pytest
import torch
from support.exported import Exported
from support.xnnpack_programs import (
    INPUTS,
    OUTPUTS,
    captured,
    int_weight,
    linear_with,
    lowered_output,
)
from torch import Tensor, nn

from delegates import DelegateError
from delegates.xnnpack import lower
from quant.modules import QuantizedLinear, QuantizedWeight
from quant.weight_type import int4

pytestmark = pytest.mark.check

X = torch.randn(1, 5, INPUTS, generator=torch.Generator().manual_seed(1))


def refusal(module: nn.Module) -> str:
    with pytest.raises(DelegateError) as error:
        lower(captured(module, X), {}, {}, with_etrecord=False)
    return str(error.value)


def scales_with(value: float) -> Tensor:
    scales = torch.ones(OUTPUTS, INPUTS // 32)
    scales[3, 1] = value
    return scales


@pytest.mark.parametrize(("bits", "group"), [(4, 32), (8, INPUTS), (4, 64)])
def test_symmetric_weights_compute_what_eager_computes(
    tmp_path: Path, bits: int, group: int
) -> None:
    linear = linear_with(int_weight(bits, group))
    out = lowered_output(linear, X, tmp_path / "linear.pte")
    torch.testing.assert_close(out, linear(X), rtol=1e-5, atol=1e-3)


def test_a_padded_linear_computes_what_eager_computes(tmp_path: Path) -> None:
    weight = int_weight()
    stored = QuantizedWeight(weight.qdata, weight.scale, int4(32))
    linear = QuantizedLinear(stored, INPUTS - 20)
    x = X[..., : INPUTS - 20].contiguous()
    out = lowered_output(linear, x, tmp_path / "padded.pte")
    torch.testing.assert_close(out, linear(x), rtol=1e-5, atol=1e-3)


def test_asymmetric_int4() -> None:
    assert refusal(linear_with(int_weight(zero_point=1))) == (
        "weight is asymmetric int4; XNNPACK ignores its zero points: use a symmetric scheme."
    )


def test_asymmetric_int8() -> None:
    assert "asymmetric int8" in refusal(linear_with(int_weight(8, INPUTS, zero_point=-3)))


@pytest.mark.parametrize(("bits", "group"), [(4, 32), (8, INPUTS)])
def test_weight_only(bits: int, group: int) -> None:
    assert refusal(linear_with(int_weight(bits, group, activations=None))) == (
        "weight is quantized but its activations are not; XNNPACK would drop the scales: quantize "
        "the activations too (8da4w)."
    )


def test_a_scale_that_bfloat16_does_not_hold() -> None:
    assert refusal(linear_with(int_weight(scales=scales_with(1 + 2**-8)))) == (
        "weight has scales that are not exact in bfloat16; XNNPACK would truncate them: round the "
        "scales before quantizing."
    )


@pytest.mark.parametrize("value", [0.0, -1.0, 2.0**-127, float("inf"), float("nan")])
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (8, INPUTS)])
def test_a_scale_that_fails_at_load(value: float, bits: int, group: int) -> None:
    scales = scales_with(value) if bits == 4 else scales_with(value)[:, 1:]
    sentence = refusal(linear_with(int_weight(bits, group, scales=scales.contiguous())))
    assert sentence == (
        "weight has a scale that is not a positive normal number; XNNPACK would fail when it loads "
        "the program: quantize again."
    )


def test_groups_of_16() -> None:
    assert refusal(linear_with(int_weight(group=16))) == (
        "weight has groups of 16; XNNPACK's int4 supports multiples of 32: use --group-size 32, "
        "64 or 128."
    )


def test_grouped_int8() -> None:
    assert refusal(linear_with(int_weight(8, 32))) == (
        "weight is int8 in groups of 32; XNNPACK's int8 supports one scale per row: quantize per "
        "channel."
    )


def test_the_weight_is_named_by_its_path() -> None:
    module = nn.Sequential(linear_with(int_weight()), nn.Linear(OUTPUTS, INPUTS, bias=False))
    module.append(linear_with(int_weight(zero_point=2)))
    assert refusal(module).startswith("2.weight is asymmetric int4")


def test_every_linear_of_the_model_is_delegated(stories_gptq_export: Exported) -> None:
    from exporter.file.pte import read_report

    delegation = read_report(stories_gptq_export.path)["delegation"]
    assert delegation["delegated"]["linear"] == 5 * 7 + 1
    assert "linear" not in delegation["left"]
    assert not {"mm", "bmm", "addmm", "matmul"} & (
        delegation["left"].keys() | delegation["delegated"].keys()
    )
    assert delegation["left"]["llama::custom_sdpa"] == 5
    assert delegation["left"]["llama::update_cache"] == 10
    assert delegation["left"]["quantized_decomposed::embedding_byte"] == 1
