"""Two-level scales: exact in bfloat16 on any row, close to the best the grid has."""

import math

import pytest
import torch
from torch import Tensor

from quant.errors import QuantError
from quant.rounding.nearest import round_groups, round_int8, search_scales
from quant.rounding.scales import (
    GRIDS,
    Grid,
    TwoLevelScales,
    round_to_grid,
    rtn_scales,
    searched_scales,
)
from quant.scheme import METHODS

COLUMNS = 128
RTN = METHODS["rtn4"]


def hostile_rows() -> Tensor:
    """float32 (rows, 128): every kind of row that a closed form could trip over."""
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(8, COLUMNS, generator=generator)
    outlier = normal[0].clone()
    outlier[5] = 1e6
    spread = torch.exp2(torch.linspace(-120, 120, COLUMNS))
    one_group = torch.zeros(COLUMNS)
    one_group[32:64] = normal[1, 32:64]
    rows = [
        torch.zeros(COLUMNS),
        torch.full((COLUMNS,), 1e-40),  # subnormal
        torch.full((COLUMNS,), 1.4e-45),  # the smallest number there is
        torch.full((COLUMNS,), torch.finfo(torch.float32).max),
        torch.full((COLUMNS,), -torch.finfo(torch.float32).max),
        torch.full((COLUMNS,), 0.75),
        normal[0] * 1e30,
        normal[0] * 1e-30,
        outlier,
        spread,
        one_group,
        *normal,
    ]
    return torch.stack(rows)


def dequantize(values: Tensor, scales: TwoLevelScales, group_size: int) -> Tensor:
    groups = values.unflatten(1, (-1, group_size)) * scales.product().unsqueeze(2)
    return groups.flatten(1)


def squared_error(weight: Tensor, scales: TwoLevelScales, group_size: int) -> Tensor:
    values = round_to_grid(weight, scales, group_size)
    return (dequantize(values, scales, group_size) - weight).square().sum(dim=1)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=lambda grid: f"{grid.bits} bits")
@pytest.mark.parametrize("group_size", [32, 64, 128])
@pytest.mark.parametrize("choose", [rtn_scales, searched_scales])
def test_hostile_rows_get_scales_every_tool_can_read(choose, group_size: int, grid: Grid) -> None:
    scales = choose(hostile_rows(), group_size, grid=grid)
    assert scales.multiple.dtype == torch.uint8
    assert scales.multiple.min() >= 1 and scales.multiple.max() <= grid.most
    product = scales.product()
    assert torch.equal(product.bfloat16().float(), product), "not exact in bfloat16"
    assert (product >= torch.finfo(torch.bfloat16).tiny).all() and product.isfinite().all()
    mantissa = torch.frexp(scales.row_scale).mantissa * 16
    assert torch.equal(mantissa, mantissa.round()), "a row scale has more than 4 significant bits"
    values = round_to_grid(hostile_rows(), scales, group_size)
    assert torch.isin(values, grid.values).all()
    folded = values.unflatten(1, (-1, group_size)).int() * scales.multiple.int().unsqueeze(2)
    assert folded.min() >= -128 and folded.max() <= 127
    assert dequantize(values, scales, group_size).isfinite().all()


def test_products_split_again_into_the_same_products() -> None:
    """What a kernel does that wants the integers back from a file of ordinary scales."""
    scales = searched_scales(torch.randn(64, 256), 32)
    product = scales.product()
    for row in range(64):
        found = [
            m * 2.0**e
            for m in range(8, 16)
            for e in range(-40, 10)
            if all(
                (k := value / (m * 2.0**e)) == int(k) and 1 <= k <= 15
                for value in product[row].tolist()
            )
        ]
        assert found
        again = torch.round(product[row] / found[0]) * found[0]
        assert torch.equal(again, product[row])


def test_search_never_loses_to_the_closed_form_by_much() -> None:
    rows = hostile_rows()[6:]
    closed = squared_error(rows, rtn_scales(rows, 32), 32)
    searched = squared_error(rows, searched_scales(rows, 32), 32)
    finite = closed.isfinite() & (closed > 0)
    assert (searched[finite] <= closed[finite] * 1.0001).all()
    normal = torch.randn(256, 512)
    gain = squared_error(normal, searched_scales(normal, 32), 32).sum()
    assert gain < 0.92 * squared_error(normal, rtn_scales(normal, 32), 32).sum()


def test_search_comes_close_to_the_whole_grid() -> None:
    weight = torch.randn(8, 256, generator=torch.Generator().manual_seed(1))
    found = squared_error(weight, searched_scales(weight, 32), 32)
    best = torch.full((8,), math.inf)
    for m in range(8, 16):
        for exponent in range(-9, 0):
            row_scale = torch.full((8, 1), m * 2.0**exponent)
            errors = []
            for k in range(1, 16):
                multiple = torch.full((8, 8), k, dtype=torch.uint8)
                scales = TwoLevelScales(multiple, row_scale)
                rounded = dequantize(round_to_grid(weight, scales, 32), scales, 32)
                errors.append((rounded - weight).square().unflatten(1, (8, 32)).sum(dim=2))
            best = torch.minimum(best, torch.stack(errors).amin(dim=0).sum(dim=1))
    assert (found <= best * 1.03).all()
    assert found.sum() <= best.sum() * 1.01


def test_a_bit_more_takes_two_thirds_of_the_error() -> None:
    """Of normal numbers: the step halves, the error falls to a quarter, and the coarser multiples
    give back a part of it."""
    normal = torch.randn(256, 512)
    found = [searched_scales(normal, 32, grid=grid) for grid in GRIDS.values()]
    at2, at3, at4, at5, at6 = (squared_error(normal, scales, 32).sum() for scales in found)
    assert at5 < at4 / 3 and at6 < at5 / 3
    assert at3 < at2 / 3.5 and at4 < at3 / 3


def test_chosen_values_lose_less_than_a_uniform_grid() -> None:
    normal = torch.randn(256, 512, generator=torch.Generator().manual_seed(2))
    for bits, share in ((2, 0.8), (3, 0.86)):
        ours, uniform = (
            squared_error(normal, searched_scales(normal, 32, grid=grid), 32).sum()
            for grid in (GRIDS[bits], Grid(bits, 15))
        )
        assert ours < share * uniform


@pytest.mark.parametrize("grid", GRIDS.values(), ids=lambda grid: f"{grid.bits} bits")
def test_numbers_go_to_the_nearest_value(grid: Grid) -> None:
    numbers = torch.linspace(1.2 * grid.low, 1.2 * grid.high, 999)
    least = (numbers[:, None] - grid.values).abs().amin(dim=1)
    assert len(grid.values) == 1 << grid.bits
    assert torch.equal((numbers - grid.nearest_(numbers.clone())).abs(), least)


def test_importance_moves_the_error_to_where_it_is_cheap() -> None:
    weight = torch.randn(32, 128)
    importance = torch.rand(128) * 10
    weighted = search_scales(weight, 32, importance)
    plain = search_scales(weight, 32)

    def cost(scales: TwoLevelScales) -> float:
        rounded = dequantize(round_to_grid(weight, scales, 32), scales, 32)
        return ((rounded - weight).square() * importance).sum().item()

    assert cost(weighted) < cost(plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_in_chunks_is_rounding_at_once(dtype: torch.dtype) -> None:
    weight = torch.randn(3000, 172).to(dtype)  # several chunks, a ragged last group
    quantized = round_groups(weight, 4, 32, "w", RTN)
    padded = torch.nn.functional.pad(weight.float(), (0, 20))
    scales = rtn_scales(padded, 32)
    assert torch.equal(quantized.scales, scales.product())
    assert torch.equal(quantized.values, round_to_grid(padded, scales, 32))
    assert torch.count_nonzero(quantized.values[:, 172:]) == 0


def test_int8_is_within_half_a_step_on_every_row() -> None:
    rows = torch.cat((hostile_rows()[:3], hostile_rows()[5:]))
    quantized = round_int8(rows, "w")
    assert quantized.scales.shape == (len(rows), 1)
    assert (quantized.scales >= torch.finfo(torch.bfloat16).tiny).all()
    error = (quantized.dequantize() - rows).abs()
    assert (error <= quantized.scales * 0.5001).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_not_finite_is_named(bad: float) -> None:
    weight = torch.randn(8, 64)
    weight[3, 7] = bad
    with pytest.raises(QuantError, match=r"^layer\.q_proj holds values that are not finite"):
        round_groups(weight, 4, 32, "layer.q_proj", RTN)
    with pytest.raises(QuantError, match="layer.q_proj"):
        round_int8(weight, "layer.q_proj")
