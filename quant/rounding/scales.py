"""Two-level scales: a group's scale is a small integer, its multiple, times one float per row.

The row's float has 4 significant bits, m * 2^e with m in 8..15, so that the product with a multiple
of at most 4 bits has at most 8: it is exact in bfloat16. Stock tools read ordinary groups, and a
kernel that knows the format can fold the multiple into the value and scale once per row: their
product fits int8, whatever the width.

Everything here works on complete rows, in the row's own power of two, so that the size of the
numbers in a row never matters: its largest magnitude is mapped into [0.5, 1).
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

# Row scales stay normal in bfloat16, with room for a kernel's own factors on either side.
_MIN_EXPONENT, _MAX_EXPONENT = -90, 120
_SMALLEST = 2.0**-16  # of a row's largest magnitude: what a group counts as at least
_SEARCH_FRACTIONS = tuple(0.55 + 0.05 * step for step in range(11))  # of the closed form's scale
_ROW_START, _ROW_CANDIDATES = 1.5, 10  # row scales that are tried, down from 1.5 of the closed form


@dataclass(frozen=True)
class Grid:
    """The integers of a width.

    Attributes:
        bits: of a value.
        most: the largest multiple of a group.
        chosen: the values, rising, where they are not -2^(bits - 1) to 2^(bits - 1) - 1.
    """

    bits: int
    most: int
    chosen: tuple[int, ...] = ()

    @property
    def low(self) -> int:
        return self.chosen[0] if self.chosen else -(1 << self.bits - 1)

    @property
    def high(self) -> int:
        return self.chosen[-1] if self.chosen else -self.low - 1

    @cached_property
    def values(self) -> Tensor:
        """All of them, rising: float32."""
        return torch.tensor(self.chosen or range(self.low, self.high + 1), dtype=torch.float32)

    @cached_property
    def bounds(self) -> Tensor:
        """Half way between chosen values, which the lower one has: float32; else nothing."""
        return (self.values[1:] + self.values[:-1]) / 2 if self.chosen else self.values[:0]

    @property
    def half_range(self) -> float:
        """What the largest magnitude is mapped to: half a step beyond `high`."""
        return self.high + 0.5

    def nearest_(self, numbers: Tensor) -> Tensor:
        """Rounds float32 numbers to the nearest values, in place."""
        if not self.chosen:
            return numbers.round_().clamp_(self.low, self.high)
        places = torch.bucketize(numbers, self.bounds.to(numbers.device))
        return numbers.copy_(self.values.to(numbers.device)[places])


INT4 = Grid(4, 15)
# Four and eight integers near the best values for normal numbers, whose steps grow with them
# (Lloyd, 1957; Max, 1960). Times 15 they fit int8, whose lowest -16 * 8 and -32 * 4 are.
GRIDS = {
    2: Grid(2, 15, (-7, -2, 2, 7)),
    3: Grid(3, 15, (-8, -5, -3, -1, 1, 3, 5, 8)),
    4: INT4,
    5: Grid(5, 8),
    6: Grid(6, 4),
}


@dataclass(frozen=True)
class TwoLevelScales:
    """Scales before they are multiplied out.

    Attributes:
        multiple: uint8 (rows, groups) in 1..grid.most.
        row_scale: float32 (rows, 1) with 4 significant bits.
        grid: of the values.
    """

    multiple: Tensor
    row_scale: Tensor
    grid: Grid = INT4

    def product(self) -> Tensor:
        """The groups' scales (rows, groups), float32, exact in bfloat16."""
        return self.multiple * self.row_scale


def rtn_scales(weight: Tensor, group_size: int, grid: Grid = INT4) -> TwoLevelScales:
    """Scales in closed form: a group's largest magnitude spans half the range of values.

    Args:
        weight: float32 (rows, columns), columns a multiple of group_size.
    """
    return grid_scales(weight.unflatten(1, (-1, group_size)).abs().amax(dim=2), grid)


def grid_scales(reach: Tensor, grid: Grid = INT4) -> TwoLevelScales:
    """The scales on the grid nearest to free scales; a row's largest is not rounded down.

    Args:
        reach: float32 (rows, groups), >= 0: what `grid.half_range` steps of a group's scale
            reach.
    """
    exponent = _row_exponents(reach)
    ideal = (reach * _power_of_two(-exponent)).clamp(_SMALLEST, 1) / grid.half_range
    row_scale = _round_up(ideal.amax(dim=1, keepdim=True) / grid.most)
    multiple = _nearest_multiple(ideal, row_scale, grid)
    return TwoLevelScales(multiple, row_scale * _power_of_two(exponent), grid)


def absmax_scales(weight: Tensor, group_size: int) -> Tensor:
    """Ordinary scales: a group's largest magnitude / 7.5, in bfloat16 and, where they are large
    enough for 4 bits of anything, exact in float16: float32 (rows, groups)."""
    largest = weight.unflatten(1, (-1, group_size)).abs().amax(dim=2)
    return (largest / INT4.half_range).clamp(min=2.0**-17).bfloat16().float()


def searched_scales(
    weight: Tensor, group_size: int, importance: Tensor | None = None, grid: Grid = INT4
) -> TwoLevelScales:
    """The grid's scales of least squared error, found in three sweeps.

    Each group first finds its best free scale; then every row scale of about an octave is tried
    with the nearest integers to those; then each group tries the integers beside its own.

    Args:
        weight: float32 (rows, columns), columns a multiple of group_size.
        importance: float32 (columns,): what a unit of squared error costs in each column
            (the diagonal of a Hessian), or None for 1.
    """
    exponent = _row_exponents(weight.abs())
    groups = (weight * _power_of_two(-exponent)).unflatten(1, (-1, group_size))
    cost = None if importance is None else importance.view(-1, group_size)

    widest = groups.abs().amax(dim=2).clamp(_SMALLEST, 1) / grid.half_range  # (rows, groups)
    ideal, ideal_error = widest, _squared_error(groups, widest, cost, grid)
    for fraction in _SEARCH_FRACTIONS:
        candidate = widest * fraction
        candidate_error = _squared_error(groups, candidate, cost, grid)
        ideal = torch.where(candidate_error < ideal_error, candidate, ideal)
        ideal_error = torch.minimum(candidate_error, ideal_error)

    row_scale = _round_up(widest.amax(dim=1, keepdim=True) * (_ROW_START / grid.most))
    best_scale, best_error = row_scale, torch.full_like(row_scale, torch.inf)
    for _ in range(_ROW_CANDIDATES):
        scales = _nearest_multiple(ideal, row_scale, grid) * row_scale
        error = _squared_error(groups, scales, cost, grid).sum(dim=1, keepdim=True)
        best_scale = torch.where(error < best_error, row_scale, best_scale)
        best_error = torch.minimum(error, best_error)
        row_scale = _next_below(row_scale)

    start = _nearest_multiple(ideal, best_scale, grid).float()
    multiple, error = start, _squared_error(groups, start * best_scale, cost, grid)
    for step in (-2, -1, 1, 2):
        candidate = (start + step).clamp(1, grid.most)
        candidate_error = _squared_error(groups, candidate * best_scale, cost, grid)
        multiple = torch.where(candidate_error < error, candidate, multiple)
        error = torch.minimum(candidate_error, error)
    return TwoLevelScales(multiple.to(torch.uint8), best_scale * _power_of_two(exponent), grid)


def round_to_grid(weight: Tensor, scales: TwoLevelScales, group_size: int) -> Tensor:
    """The nearest values of a weight (rows, columns), as int8."""
    return round_to_scales(weight, scales.product(), group_size, scales.grid)


def round_to_scales(weight: Tensor, scales: Tensor, group_size: int, grid: Grid = INT4) -> Tensor:
    """The same of scales (rows, groups)."""
    steps = weight.unflatten(1, (-1, group_size)) / scales.unsqueeze(2)
    return grid.nearest_(steps).to(torch.int8).flatten(1)


def _squared_error(groups: Tensor, scales: Tensor, cost: Tensor | None, grid: Grid) -> Tensor:
    """The squared error of rounding groups (rows, groups, group_size) at these scales: (rows,
    groups)."""
    scales = scales.unsqueeze(2)
    error = grid.nearest_(groups / scales).mul_(scales).sub_(groups).square_()
    return (error if cost is None else error.mul_(cost)).sum(dim=2)


def _nearest_multiple(scales: Tensor, row_scale: Tensor, grid: Grid) -> Tensor:
    return (scales / row_scale).round_().clamp_(1, grid.most).to(torch.uint8)


def _row_exponents(magnitudes: Tensor) -> Tensor:
    """The power of two that brings each row (rows, any) below 1: int32 (rows, 1)."""
    largest = magnitudes.amax(dim=1, keepdim=True)
    return torch.frexp(largest).exponent.clamp(_MIN_EXPONENT, _MAX_EXPONENT)


def _power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent for int32 in -126..127, by its bits: pow need not be exact everywhere."""
    return (exponent + 127 << 23).view(torch.float32)


def _round_up(x: Tensor) -> Tensor:
    """The next number with 4 significant bits, of one above 0."""
    mantissa, exponent = torch.frexp(x)  # mantissa in [0.5, 1)
    return torch.ceil(mantissa * 16) * _power_of_two(exponent - 4)


def _next_below(x: Tensor) -> Tensor:
    """The next smaller number with 4 significant bits, of one that has them."""
    mantissa, exponent = torch.frexp(x)
    step = torch.where(mantissa == 0.5, 0.5, 1.0)  # below a power of two the grid is finer
    return (mantissa * 16 - step) * _power_of_two(exponent - 4)
