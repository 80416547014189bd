"""Round to nearest, a few rows at a time: 2 to 6 bits in groups, int8 per output channel or in
groups."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from quant.baselines.hqq import hqq_scales
from quant.errors import QuantError
from quant.machine.device import HOST
from quant.machine.threads import one_thread
from quant.method import Method
from quant.modules import QuantizedWeight
from quant.rounding.scales import (
    GRIDS,
    INT4,
    Grid,
    TwoLevelScales,
    absmax_scales,
    round_to_scales,
    rtn_scales,
    searched_scales,
)
from quant.weight_type import INT8, WeightType

_CHUNK_ELEMENTS = 1 << 18  # stays in a core's cache
_GPU_CHUNK_ELEMENTS = 1 << 24
_SMALLEST_SCALE = 2.0**-100
_LARGEST_SCALE = 2.0**120
_SMALLEST_HALF, _LARGEST_HALF = 2.0**-24, 65504.0

Rounding = Callable[[Tensor], tuple[Tensor, Tensor]]  # float32 rows to int8 values, scales


def round_weight(
    weight: Tensor, type: WeightType, name: str, method: Method, importance: Tensor | None = None
) -> QuantizedWeight:
    """Rounds a weight (rows, columns) of any float type to nearest.

    Args:
        method: for the scales of groups; searched ones take ten times as long.
        importance: float32 (columns,): what an error costs there, where they are searched.

    Raises:
        QuantError: the weight `name` holds a value that is not finite.
    """
    if type.bits == 8:
        return round_int8(weight, name, type)
    return round_groups(weight, type.bits, type.group_size, name, method, importance)


def round_groups(
    weight: Tensor,
    bits: int,
    group_size: int,
    name: str,
    method: Method,
    importance: Tensor | None = None,
) -> QuantizedWeight:
    """Rounds a weight (rows, columns) of any float type to nearest, 2 to 6 bits in groups.

    Columns are padded with zeros to a multiple of the group.

    Args:
        method: for its scales; searched ones take ten times as long.
        importance: float32 (columns,): what an error costs there, where they are searched.

    Raises:
        QuantError: the weight `name` holds a value that is not finite.
    """
    padding, grid = -weight.shape[1] % group_size, GRIDS[bits]
    if importance is not None:
        importance = F.pad(importance, (0, padding))

    def round_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
        rows = F.pad(rows, (0, padding)) if padding else rows
        scales = _scales(rows, grid, group_size, method, importance)
        return round_to_scales(rows, scales, group_size, grid), scales

    columns = weight.shape[1] + padding
    values, scales = _by_rows(weight, columns, columns // group_size, round_rows, name)
    return QuantizedWeight(values, scales, WeightType(bits, group_size, method.levels))


def _scales(
    rows: Tensor, grid: Grid, group_size: int, method: Method, importance: Tensor | None
) -> Tensor:
    """The groups' scales, multiplied out: float32 (rows, groups)."""
    if method.rounding == "hqq":
        return hqq_scales(rows, group_size, grid).product()
    if method.scales == "absmax":
        return absmax_scales(rows, group_size)
    if method.scales == "closed":
        return rtn_scales(rows, group_size, grid).product()
    return searched_scales(rows, group_size, importance, grid).product()


def round_int8(weight: Tensor, name: str, type: WeightType = INT8) -> QuantizedWeight:
    """Rounds a weight (rows, columns) of any float type to int8, one scale per row, or float16
    ones per group, as llama.cpp does for Q8_0.

    Raises:
        QuantError: the weight `name` holds a value that is not finite.
    """
    columns = type.padded(weight.shape[1])
    group_size = type.group_size if type.in_groups else columns

    def round_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
        groups = F.pad(rows, (0, columns - rows.shape[1])).unflatten(1, (-1, group_size))
        scales = groups.abs().amax(dim=2) / 127
        if type.in_groups:
            scales = scales.clamp(_SMALLEST_HALF, _LARGEST_HALF).half().float()
        else:
            scales = scales.clamp(_SMALLEST_SCALE, _LARGEST_SCALE)
        values = (groups / scales[..., None]).round_().clamp_(-127, 127)
        return values.to(torch.int8).flatten(1), scales

    values, scales = _by_rows(weight, columns, columns // group_size, round_rows, name)
    return QuantizedWeight(values, scales, type)


def search_scales(
    weight: Tensor, group_size: int, importance: Tensor | None = None, grid: Grid = INT4
) -> TwoLevelScales:
    """`searched_scales` of a whole float32 weight, some rows at a time."""
    return _scales_by_rows(weight, lambda rows: searched_scales(rows, group_size, importance, grid))


def closed_scales(weight: Tensor, group_size: int, grid: Grid = INT4) -> TwoLevelScales:
    """`rtn_scales` of a whole float32 weight, some rows at a time."""
    return _scales_by_rows(weight, lambda rows: rtn_scales(rows, group_size, grid))


def _scales_by_rows(weight: Tensor, choose: Callable[[Tensor], TwoLevelScales]) -> TwoLevelScales:
    with one_thread():
        chosen = [choose(rows) for _, rows in row_chunks(weight)]
    return TwoLevelScales(
        torch.cat([scales.multiple for scales in chosen]),
        torch.cat([scales.row_scale for scales in chosen]),
        chosen[0].grid,
    )


def require_finite(weight: Tensor, name: str) -> None:
    """Raises QuantError if a weight holds NaN or infinity."""
    if not weight.sum().isfinite() and not weight.isfinite().all():
        raise QuantError(
            f"{name} holds values that are not finite; no model computes with them: check the "
            "checkpoint."
        )


def _by_rows(
    weight: Tensor, columns: int, groups: int, round_rows: Rounding, name: str
) -> tuple[Tensor, Tensor]:
    """Runs `round_rows` over float32 chunks; no float copy of the whole weight is made.

    Returns:
        int8 (rows, columns), float32 (rows, groups).
    """
    values = weight.new_empty(weight.shape[0], columns, dtype=torch.int8)
    scales = weight.new_empty(weight.shape[0], groups, dtype=torch.float32)
    with one_thread():
        for start, chunk in row_chunks(weight):
            rows = chunk.float()
            require_finite(rows, name)
            here = slice(start, start + len(rows))
            values[here], scales[here] = round_rows(rows)
    return values, scales


def row_chunks(weight: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Views of a few rows each and where they start; on the CPU, small enough for its cache."""
    elements = _CHUNK_ELEMENTS if weight.device == HOST else _GPU_CHUNK_ELEMENTS
    count = max(1, elements // weight.shape[1])
    for start in range(0, weight.shape[0], count):
        yield start, weight[start : start + count]
