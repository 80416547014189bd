"""The loops of GPTQ and of coordinate descent, compiled for this processor by Numba.

PyTorch needs a call for each step of each column, which costs more than the step. Here the same
arithmetic runs over some rows of a weight at a time, whose numbers stay in the first cache. Loops
over all of a tile, also where it is not full, are those that LLVM turns into vectors. They are
written out: slices would take Numba longer to compile than all else.
"""

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quant.rounding.scales import Grid

_TILE = 64  # rows that are rounded together

Floats = NDArray[np.float32]

_compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy")


def round_block(free: Tensor, steps: Tensor, grid: Grid, upper: Tensor, values: Tensor) -> Tensor:
    """Rounds the columns of a block, each after the errors of those before: see gptq.py.

    Args:
        free: float32 (block, rows): what is to be rounded.
        steps: float32 (block, rows), of the rounding.
        upper: float32 (block, block), U.
        values: float32 (block, rows): is filled with integers.

    Returns:
        err_i, float32 (block, rows).
    """
    errors = torch.empty_like(free)
    arrays = (array.contiguous().numpy() for array in (free, steps, upper))
    _round_block(*arrays, values.numpy(), errors.numpy(), _numbers_of(grid))
    return errors


def descend_group(
    values: Tensor, multiple: Tensor, gradient: Tensor, hessian: Tensor, grid: Grid
) -> Tensor:
    """Finds the best integers and the best integer scale of a group of columns: see descent.py.

    Args:
        values: float32 (group_size, rows), integers; changed.
        multiple: uint8 (rows,), their scales; changed.
        gradient: float32 (group_size, rows).
        hessian: float32 (group_size, group_size).

    Returns:
        By how much Q moves: float32 (group_size, rows).
    """
    changes = torch.empty_like(values)
    given = (values, multiple, gradient, hessian.contiguous(), changes)
    _descend_group(*(tensor.numpy() for tensor in given), _numbers_of(grid), np.float32(grid.most))
    return changes


def compile_for(grid: Grid) -> None:
    """Runs both loops once on one number; all grids share the compiled code."""
    one = torch.ones(1, 1)
    round_block(one, one, grid, one, one.clone())
    descend_group(one.clone(), torch.ones(1, dtype=torch.uint8), one, one, grid)


def _numbers_of(grid: Grid) -> tuple[np.float32, np.float32, Floats, Floats]:
    """The lowest value and the highest; where values are chosen, the bounds between them, and by
    how much a number beyond each is higher."""
    rises = grid.values.diff() if grid.chosen else grid.bounds
    return np.float32(grid.low), np.float32(grid.high), grid.bounds.numpy(), rises.numpy()


@_compiled
def _to_nearest(
    numbers: Floats, rounded: Floats, grid: tuple[np.float32, np.float32, Floats, Floats]
) -> None:
    """Rounds a tile's numbers to the grid's nearest values."""
    low, high, bounds, rises = grid
    if len(bounds) == 0:
        for t in range(_TILE):
            rounded[t] = min(max(np.rint(numbers[t]), low), high)
        return
    for t in range(_TILE):
        rounded[t] = low
    for i in range(len(bounds)):
        bound, rise = bounds[i], rises[i]
        for t in range(_TILE):
            rounded[t] += rise if numbers[t] > bound else np.float32(0)


@_compiled
def _round_block(
    free: Floats,
    steps: Floats,
    upper: Floats,
    values: Floats,
    errors: Floats,
    grid: tuple[np.float32, np.float32, Floats, Floats],
) -> None:
    columns, rows = free.shape
    left = np.zeros((columns, _TILE), np.float32)
    ideal = np.zeros(_TILE, np.float32)
    integers, error = np.zeros_like(ideal), np.zeros_like(ideal)
    for start in range(0, rows, _TILE):
        count = min(_TILE, rows - start)
        for i in range(columns):
            for t in range(count):
                left[i, t] = free[i, start + t]
        for i in range(columns):
            diagonal = upper[i, i]
            for t in range(count):
                ideal[t] = left[i, t] / steps[i, start + t]
            _to_nearest(ideal, integers, grid)
            for t in range(count):
                values[i, start + t] = integers[t]
                error[t] = (left[i, t] - integers[t] * steps[i, start + t]) / diagonal
                errors[i, start + t] = error[t]
            for j in range(i + 1, columns):
                factor = upper[i, j]
                for t in range(_TILE):
                    left[j, t] -= factor * error[t]


@_compiled
def _descend_group(
    values: Floats,
    multiple: NDArray[np.uint8],
    gradient: Floats,
    hessian: Floats,
    changes: Floats,
    grid: tuple[np.float32, np.float32, Floats, Floats],
    most: np.float32,
) -> None:
    size, rows = values.shape
    before, slopes = np.zeros((size, _TILE), np.float32), np.zeros((size, _TILE), np.float32)
    integers, best = np.zeros_like(slopes), np.zeros_like(slopes)
    was, scale = np.ones(_TILE, np.float32), np.ones(_TILE, np.float32)
    best_scale, move = np.zeros_like(was), np.zeros_like(was)
    gain, best_gain = np.zeros_like(was), np.zeros_like(was)
    ideal, old = np.zeros_like(was), np.zeros_like(was)
    for start in range(0, rows, _TILE):
        count = min(_TILE, rows - start)
        for t in range(count):
            was[t] = multiple[start + t]
        for t in range(_TILE):
            best_scale[t] = was[t]
            best_gain[t] = 0
        for i in range(size):
            for t in range(count):
                best[i, t] = values[i, start + t]
            for t in range(_TILE):
                before[i, t] = best[i, t] * was[t]
        for step in (0, -1, 1):
            for t in range(_TILE):
                scale[t] = min(max(was[t] + np.float32(step), np.float32(1)), most)
                gain[t] = 0
            for i in range(size):
                for t in range(count):
                    slopes[i, t] = gradient[i, start + t]
            for i in range(size):  # to the nearest integers at this scale
                diagonal = hessian[i, i]
                for t in range(_TILE):
                    ideal[t] = before[i, t] / scale[t]
                _to_nearest(ideal, integers[i], grid)
                for t in range(_TILE):
                    move[t] = integers[i, t] * scale[t] - before[i, t]
                    gain[t] += move[t] * (slopes[i, t] + slopes[i, t] - move[t] * diagonal)
                for j in range(size if step else 0):
                    factor = hessian[i, j]
                    for t in range(_TILE):
                        slopes[j, t] -= factor * move[t]
            for i in range(size):  # and from there to the best, one after the other
                diagonal = hessian[i, i]
                for t in range(_TILE):
                    old[t] = integers[i, t]
                    ideal[t] = slopes[i, t] / (diagonal * scale[t]) + old[t]
                _to_nearest(ideal, integers[i], grid)
                for t in range(_TILE):
                    move[t] = (integers[i, t] - old[t]) * scale[t]
                    gain[t] += move[t] * (slopes[i, t] + slopes[i, t] - move[t] * diagonal)
                for j in range(i + 1, size):
                    factor = hessian[i, j]
                    for t in range(_TILE):
                        slopes[j, t] -= factor * move[t]
            for i in range(size):
                for t in range(_TILE):
                    best[i, t] = integers[i, t] if gain[t] > best_gain[t] else best[i, t]
            for t in range(_TILE):
                best_scale[t] = scale[t] if gain[t] > best_gain[t] else best_scale[t]
                best_gain[t] = max(gain[t], best_gain[t])
        for i in range(size):
            for t in range(count):
                changes[i, start + t] = best[i, t] * best_scale[t] - before[i, t]
                values[i, start + t] = best[i, t]
        for t in range(count):
            multiple[start + t] = np.uint8(best_scale[t])
