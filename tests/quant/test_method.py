"""Methods by name, the baselines' pure functions, activations as the runtime rounds them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from quant.baselines.awq import awq_scale
from quant.baselines.hqq import hqq_scales
from quant.errors import QuantError
from quant.method import Method, changed
from quant.modules import QuantizedLinear, QuantizedWeight
from quant.rounding.activations import int8_round_trip
from quant.rounding.nearest import round_groups
from quant.rounding.scales import absmax_scales, round_to_grid, round_to_scales, rtn_scales
from quant.scheme import METHODS, Scheme, scheme_from_text
from quant.weight_type import int4


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_settings_come_from_text() -> None:
    method = changed(METHODS["gptq4"], {"drift": "qronos", "drift_share": "1", "descent": "0"})
    assert method == Method(drift="qronos", drift_share=1.0, descent=0)
    assert changed(Method(), {"act_order": "false"}).act_order is False


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"speed": "1"}, "method has no setting 'speed'; it must be one of rounding, scales, "),
        ({"drift": "both"}, "method drift='both' is not supported; it must be one of none, gptaq"),
        ({"descent": "two"}, "method descent='two' is not supported; give a number."),
        ({"descent": "-1"}, "method descent=-1 is not possible; it must be >= 0."),
        ({"drift_share": "2"}, "method drift_share=2.0 is not possible; it must be from 0 to 1."),
        (
            {"drift": "shrunk", "drift_share": "0.5"},
            "method drift_share has no effect with drift=shrunk, which estimates the shares; leave "
            "it out, or take drift=residual.",
        ),
        ({"act_order": "1"}, "method act_order='1' is not supported; it must be true or false."),
        ({"scales": "absmax"}, "method scales='absmax' needs rounding='nearest', not 'gptq'"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(QuantError) as error:
        changed(Method(), settings)
    assert str(error.value).startswith(sentence)


def test_a_scheme_takes_settings_as_the_command_line_writes_them() -> None:
    scheme = scheme_from_text("gptq4", "drift=none, descent=0", 64, 4)
    method = replace(METHODS["gptq4"], drift="none", descent=0)
    assert scheme == Scheme("gptq4", 64, 4, method)
    assert scheme_from_text("rtn8", "", 32, 8) == Scheme("rtn8")
    with pytest.raises(QuantError, match="method has no setting 'drift:none'"):
        scheme_from_text("gptq4", "drift:none", 32, 8)
    with pytest.raises(QuantError, match="has no method to set"):
        scheme_from_text("none", "drift=none", 32, 8)
    with pytest.raises(QuantError, match="method drift has no effect with rounding=nearest"):
        scheme_from_text("rtn4", "drift=none", 32, 8)
    assert scheme_from_text("rtn4", "rounding=gptq,drift=none", 32, 8).choice.drift == "none"
    assert scheme_from_text("rtn4", "scales=searched", 32, 8).choice.settings == {
        "rounding": "nearest",
        "scales": "searched",
        "rotation": "none",
    }


def test_schemes_that_choose_no_integers_have_no_method() -> None:
    for name in ("none", "keep"):
        with pytest.raises(QuantError, match=f"scheme '{name}' has no method to set"):
            Scheme(name, method=Method())
        assert Scheme(name).choice.rotation == "none"
    assert Scheme("rtn8").choice.rotation == "inputs" and not Scheme("rtn8").needs_calibration
    assert not Scheme("rtn4").needs_calibration and not Scheme("hqq4").needs_calibration
    assert Scheme("awq4").needs_calibration and Scheme("gptq4").needs_calibration


def test_activations_are_rounded_as_the_runtime_rounds_them() -> None:
    """Through an identity weight, a quantized linear gives back what it makes of its input."""
    identity = QuantizedWeight(torch.eye(64, dtype=torch.int8), torch.ones(64, 2), int4(32))
    linear = QuantizedLinear(identity, 64)
    rows = [normal(5, 64), normal(2, 64).abs() + 1, -normal(2, 64).abs() - 1, torch.zeros(1, 64)]
    x = torch.cat([*rows, normal(1, 64) * 1e-3, normal(1, 64) * 1e4])
    assert torch.allclose(int8_round_trip(x), linear(x), rtol=1e-6, atol=0)


@pytest.mark.parametrize("outlier", [1.0, 3.0, 6.0])
def test_hqq_lowers_its_norm(outlier: float) -> None:
    weight = normal(64, 128)
    weight[:, ::32] *= outlier

    def error(scale: Tensor) -> float:
        values = round_to_scales(weight, scale, 32).unflatten(1, (-1, 32))
        return ((values * scale.unsqueeze(2)).flatten(1) - weight).abs().pow(0.7).sum().item()

    closed = error(rtn_scales(weight, 32).product())
    assert error(hqq_scales(weight, 32).product()) < 0.99 * closed


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
def test_hqq_takes_weights_of_any_size(size: float) -> None:
    product = hqq_scales(normal(4, 64) * size, 32).product()
    assert product.isfinite().all() and (product > 0).all()
    assert torch.equal(product.bfloat16().float(), product)


def test_absmax_is_ordinary_rounding() -> None:
    weight = normal(8, 64)
    scales = absmax_scales(weight, 32)
    expected = (weight.unflatten(1, (2, 32)).abs().amax(2) / 7.5).bfloat16().float()
    assert torch.equal(scales, expected)
    quantized = round_groups(weight, 4, 32, "w", Method(rounding="nearest", scales="absmax"))
    assert torch.equal(quantized.scales, scales)
    assert (quantized.dequantize() - weight).abs().max() <= scales.max() * 0.51


def test_awq_spends_its_steps_where_activations_are_large() -> None:
    x = normal(400, 64) * torch.exp(2 * normal(64, seed=1))
    weight = normal(32, 64, seed=2)
    scale = awq_scale([weight], x, 32)
    magnitude = x.abs().mean(dim=0)
    assert torch.corrcoef(torch.stack((scale.log(), magnitude.log())))[0, 1] > 0.99

    def error(factor: Tensor) -> float:
        scaled = weight * factor
        scales = rtn_scales(scaled, 32)
        values = round_to_grid(scaled, scales, 32).unflatten(1, (-1, 32))
        rounded = (values * scales.product().unsqueeze(2)).flatten(1) / factor
        return (x @ (rounded - weight).T).square().sum().item()

    assert error(scale) < 0.8 * error(torch.ones(64))


def test_awq_leaves_even_inputs_alone() -> None:
    x = torch.ones(100, 32) * normal(100, 1).sign()
    assert torch.allclose(awq_scale([normal(8, 32)], x, 32), torch.ones(32))
