"""Coordinate descent never makes the error larger, and finds what it must."""

import itertools

import pytest
import torch
from support.calibration_sums import accumulate_hessian
from torch import Tensor

from quant.rounding.descent import descend
from quant.rounding.gptq import InverseFactor, gptq, inverse_factor
from quant.rounding.scales import (
    GRIDS,
    Grid,
    TwoLevelScales,
    round_to_grid,
    rtn_scales,
    searched_scales,
)


def problem(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor, InverseFactor]:
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(columns, columns, generator=generator) / columns**0.5
    x = torch.randn(4 * columns, columns, generator=generator) @ mix
    hessian = accumulate_hessian([x], columns)
    weight = torch.randn(rows, columns, generator=generator)
    return weight, hessian, inverse_factor(hessian)


def errors(
    weight: Tensor, values: Tensor, scales: TwoLevelScales, hessian: Tensor, factor: InverseFactor
) -> Tensor:
    """Of each row, float64, in the damped metric."""
    group_size = weight.shape[1] // scales.multiple.shape[1]
    rounded = (values.unflatten(1, (-1, group_size)) * scales.product().unsqueeze(2)).flatten(1)
    gap = (weight - rounded).double()
    damped = hessian.double() + factor.damping * torch.eye(len(hessian))
    return ((gap @ damped) * gap).sum(dim=1)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=lambda grid: f"{grid.bits} bits")
@pytest.mark.parametrize("group_size", [32, 64])
def test_no_row_gets_worse_and_gptq_gets_better(group_size: int, grid: Grid) -> None:
    weight, hessian, factor = problem(rows=40, columns=192)
    scales = searched_scales(weight, group_size, grid=grid)
    values = gptq(weight, scales, factor)
    before = errors(weight, values, scales, hessian, factor)
    for sweeps in (1, 3):
        moved, refitted = descend(weight, values, scales, factor.damped(hessian), sweeps)
        after = errors(weight, moved, refitted, hessian, factor)
        assert (after <= before * (1 + 1e-4)).all()  # float32 gains
        assert after.sum() < 0.97 * before.sum()
        assert moved.min() >= grid.low and moved.max() <= grid.high
        assert refitted.multiple.min() >= 1 and refitted.multiple.max() <= grid.most
        product = refitted.product()
        assert torch.equal(product.bfloat16().float(), product)
        before = after


def test_rounding_to_nearest_gets_nearly_as_good_as_gptq() -> None:
    weight, hessian, factor = problem(rows=64, columns=128, seed=3)
    scales = rtn_scales(weight, 32)
    nearest = round_to_grid(weight, scales, 32)
    found = descend(weight, nearest, scales, factor.damped(hessian), sweeps=10)
    by_gptq = errors(weight, gptq(weight, scales, factor), scales, hessian, factor).sum()
    assert errors(weight, *found, hessian, factor).sum() < by_gptq


def test_a_single_column_of_each_group_moves_to_its_best() -> None:
    """At the end no integer and no scale can be better, all others as they are."""
    weight, hessian, factor = problem(rows=4, columns=64, seed=5)
    scales = searched_scales(weight, 32)
    found = descend(weight, round_to_grid(weight, scales, 32), scales, factor.damped(hessian), 50)
    values, scales = found
    best = errors(weight, values, scales, hessian, factor)
    for column, step in itertools.product(range(64), (-1, 1)):
        other = values.clone()
        other[:, column] = (values[:, column] + step).clamp(-8, 7)
        assert (errors(weight, other, scales, hessian, factor) >= best * (1 - 1e-4)).all()
    for group, step in itertools.product(range(2), (-1, 1)):
        multiple = scales.multiple.clone()
        multiple[:, group] = (multiple[:, group].int() + step).clamp(1, 15).to(torch.uint8)
        moved = TwoLevelScales(multiple, scales.row_scale)
        assert (errors(weight, values, moved, hessian, factor) >= best * (1 - 1e-4)).all()


def test_blocks_and_row_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, hessian, factor = problem(rows=20, columns=256, seed=7)
    scales = searched_scales(weight, 32)
    values = gptq(weight, scales, factor)
    whole = descend(weight, values, scales, factor.damped(hessian), 2)
    monkeypatch.setattr("quant.rounding.descent._BLOCK", 32)
    monkeypatch.setattr("quant.rounding.descent.rows_together", lambda device: 8)
    parts = descend(weight, values, scales, factor.damped(hessian), 2)
    # Sums in another order may break a tie otherwise.
    assert (whole[0] == parts[0]).float().mean() > 0.99
    assert errors(weight, *whole, hessian, factor).sum().item() == pytest.approx(
        errors(weight, *parts, hessian, factor).sum().item(), rel=1e-2
    )


def test_a_weight_on_the_grid_stays() -> None:
    weight, hessian, factor = problem(rows=8, columns=64)
    scales = searched_scales(weight, 32)
    values = round_to_grid(weight, scales, 32)
    on_grid = (values.unflatten(1, (-1, 32)) * scales.product().unsqueeze(2)).flatten(1)
    moved, refitted = descend(on_grid, values, scales, factor.damped(hessian), 3)
    assert torch.equal(moved, values) and torch.equal(refitted.multiple, scales.multiple)


def test_dead_and_padded_columns_stay_zero() -> None:
    weight, hessian, _ = problem(rows=8, columns=64)
    weight[:, 40:] = 0
    hessian[40:] = 0
    hessian[:, 40:] = 0
    factor = inverse_factor(hessian)
    scales = searched_scales(weight, 32)
    values, _ = descend(weight, gptq(weight, scales, factor), scales, factor.damped(hessian), 2)
    assert torch.count_nonzero(values[:, 40:]) == 0
