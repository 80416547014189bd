"""GPTQ against its definition: one column at a time, the inverse recomputed after each."""

import pytest
import torch
from support.calibration_sums import accumulate_hessian
from torch import Tensor

from quant.errors import QuantError
from quant.rounding.gptq import gptq, inverse_factor
from quant.rounding.scales import TwoLevelScales, round_to_grid, rtn_scales, searched_scales

GROUP = 32


def correlated_inputs(tokens: int, columns: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(columns, columns, generator=generator) / columns**0.5
    sizes = torch.exp(torch.randn(columns, generator=generator))
    return (torch.randn(tokens, columns, generator=generator) @ mix) * sizes


def problem(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor, TwoLevelScales]:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed + 1))
    hessian = accumulate_hessian([correlated_inputs(4 * columns, columns, seed)], columns)
    return weight, hessian, searched_scales(weight, GROUP)


def dequantize(values: Tensor, scales: TwoLevelScales) -> Tensor:
    return (values.unflatten(1, (-1, GROUP)) * scales.product().unsqueeze(2)).flatten(1)


def output_error(weight: Tensor, values: Tensor, scales: TwoLevelScales, hessian: Tensor) -> float:
    """tr((W - Q) H (W - Q)^T)."""
    gap = (weight - dequantize(values, scales)).double()
    return ((gap @ hessian.double()) * gap).sum().item()


def gptq_by_definition(
    weight: Tensor, scales: TwoLevelScales, hessian: Tensor, damp_percent: float, act_order: bool
) -> Tensor:
    """The paper's algorithm with nothing clever: float64, a fresh inverse for every column."""
    hessian = hessian.double()
    hessian = hessian + damp_percent / 100 * hessian.diagonal().mean() * torch.eye(len(hessian))
    steps = scales.product().double().repeat_interleave(GROUP, dim=1)
    free, values = weight.double().clone(), torch.zeros_like(weight, dtype=torch.int8)
    left = list(range(weight.shape[1]))
    if act_order:
        left = torch.argsort(hessian.diagonal(), descending=True, stable=True).tolist()
    while left:
        inverse = torch.linalg.inv(hessian[left][:, left])
        column = left[0]
        rounded = (free[:, column] / steps[:, column]).round().clamp(-8, 7)
        values[:, column] = rounded.to(torch.int8)
        error = (free[:, column] - rounded * steps[:, column]) / inverse[0, 0]
        free[:, left] -= error.unsqueeze(1) * inverse[0].unsqueeze(0)
        left = left[1:]
    return values


@pytest.mark.parametrize("act_order", [True, False])
@pytest.mark.parametrize("block_size", [1, 24, 128, 1000])
def test_blocked_updates_equal_the_definition(block_size: int, act_order: bool) -> None:
    weight, hessian, scales = problem(rows=24, columns=160)
    factor = inverse_factor(hessian, 1.0, act_order)
    values = gptq(weight, scales, factor, block_size)
    expected = gptq_by_definition(weight, scales, hessian, 1.0, act_order)
    # float32 against float64: a value on the edge between two integers may fall to the other
    # side and then move its row's later columns, so nearly all rows are equal, not every one.
    same_rows = (values == expected).all(dim=1).float().mean()
    assert same_rows >= 0.9
    ours, theirs = (output_error(weight, v, scales, hessian) for v in (values, expected))
    assert ours == pytest.approx(theirs, rel=0.02)


def test_block_size_changes_nothing() -> None:
    weight, hessian, scales = problem(rows=16, columns=192, seed=5)
    factor = inverse_factor(hessian)
    column_by_column = gptq(weight, scales, factor, block_size=1)
    for block_size in (7, 64, 128, 192):
        blocked = gptq(weight, scales, factor, block_size)
        assert (blocked != column_by_column).float().mean() < 0.002


def test_rows_are_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, hessian, scales = problem(rows=50, columns=64)
    factor = inverse_factor(hessian)
    together = gptq(weight, scales, factor)
    monkeypatch.setattr("quant.rounding.gptq.rows_together", lambda device: 16)
    assert torch.equal(gptq(weight, scales, factor), together)


@pytest.mark.parametrize("seed", range(3))
def test_error_is_below_rounding_to_nearest(seed: int) -> None:
    weight, hessian, scales = problem(rows=64, columns=256, seed=seed)
    nearest = output_error(weight, round_to_grid(weight, scales, GROUP), scales, hessian)
    closed_form = rtn_scales(weight, GROUP)
    rtn = output_error(weight, round_to_grid(weight, closed_form, GROUP), closed_form, hessian)
    values = gptq(weight, scales, inverse_factor(hessian))
    assert values.min() >= -8 and values.max() <= 7
    assert output_error(weight, values, scales, hessian) < 0.6 * min(nearest, rtn)


def test_act_order_helps_where_inputs_differ_in_size() -> None:
    errors = {True: 0.0, False: 0.0}
    for seed in range(4):
        weight, hessian, scales = problem(rows=64, columns=128, seed=seed)
        for act_order in errors:
            values = gptq(weight, scales, inverse_factor(hessian, act_order=act_order))
            errors[act_order] += output_error(weight, values, scales, hessian)
    assert errors[True] < errors[False]


def test_uncorrelated_inputs_leave_rounding_to_nearest() -> None:
    weight, _, scales = problem(rows=8, columns=64)
    factor = inverse_factor(torch.diag(torch.rand(64) + 0.5))
    assert torch.equal(gptq(weight, scales, factor), round_to_grid(weight, scales, GROUP))


def test_hessian_is_the_inputs_second_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quant.rounding.gptq._GRAM_ROWS", 12)
    monkeypatch.setattr("quant.rounding.gptq._HESSIAN_ROWS", 20)  # several blocks of the triangle
    x = torch.randn(6, 10, 50)
    hessian = accumulate_hessian([x[:4], x[4:]], columns=64)
    flat = x.flatten(0, 1).double()
    expected = 2 / 60 * flat.T @ flat
    assert torch.allclose(hessian[:50, :50].double(), expected, atol=1e-5)
    assert torch.equal(hessian, hessian.T)
    assert torch.count_nonzero(hessian[50:]) == 0


def test_upper_factors_the_inverse() -> None:
    _, hessian, _ = problem(rows=1, columns=96)
    factor = inverse_factor(hessian, damp_percent=1.0)
    assert torch.equal(factor.upper, factor.upper.triu())
    damped = hessian / hessian.diagonal().mean() + 0.01 * torch.eye(96)
    ordered = damped[factor.order][:, factor.order].double()
    product = factor.upper.double().T @ factor.upper.double() @ ordered
    assert torch.allclose(product, torch.eye(96).double(), atol=1e-3)
    assert (hessian.diagonal()[factor.order].diff() <= 0).all()


def test_dead_columns_are_rounded_to_nearest_and_affect_no_other() -> None:
    weight, _, scales = problem(rows=16, columns=128)
    x = correlated_inputs(512, 128)
    dead = torch.zeros(128, dtype=torch.bool)
    dead[[3, 40, 41, 127]] = True
    x[:, dead] = 0
    values = gptq(weight, scales, inverse_factor(accumulate_hessian([x], 128)))
    nearest = round_to_grid(weight, scales, GROUP)
    assert torch.equal(values[:, dead], nearest[:, dead])
    other = weight.clone()
    other[:, dead] = 0
    values_of_other = gptq(other, scales, inverse_factor(accumulate_hessian([x], 128)))
    assert torch.equal(values[:, ~dead], values_of_other[:, ~dead])


def test_all_inputs_dead_is_rounding_to_nearest() -> None:
    weight, _, scales = problem(rows=4, columns=64)
    factor = inverse_factor(torch.zeros(64, 64))
    assert torch.equal(gptq(weight, scales, factor), round_to_grid(weight, scales, GROUP))


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_fewer_tokens_than_columns_still_factor(size: float) -> None:
    x = correlated_inputs(8, 128) * size
    weight, _, scales = problem(rows=8, columns=128)
    factor = inverse_factor(accumulate_hessian([x], 128), damp_percent=1e-9)
    assert factor.upper.isfinite().all()
    values = gptq(weight, scales, factor)
    assert values.min() >= -8 and values.max() <= 7


def test_rows_of_any_size_are_one_problem() -> None:
    weight, hessian, _ = problem(rows=8, columns=64)
    factor = inverse_factor(hessian)
    expected = gptq(weight, searched_scales(weight, GROUP), factor)
    for power in (-90, 90):
        scaled = weight * 2.0**power
        assert torch.equal(gptq(scaled, searched_scales(scaled, GROUP), factor), expected)


def test_inputs_that_are_not_finite_are_an_error() -> None:
    hessian = torch.eye(32)
    hessian[4, 4] = torch.inf
    with pytest.raises(QuantError, match="calibration inputs of a layer are not finite"):
        inverse_factor(hessian)
