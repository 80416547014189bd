"""Convolutions as linears of patches, and pools, with channels last."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.layout import BLOCK_ROWS
from delegates.op_list.operators import sides as each_side
from delegates.op_list.operators import windows
from delegates.op_list.rewrite.counting import start_of
from delegates.op_list.rewrite.editing import is_float
from delegates.op_list.rewrite.layouts import Layouts
from delegates.op_list.rewrite.places import Placed, row_of
from delegates.passes.graph import arguments

_aten = torch.ops.aten
_thimble = torch.ops.thimble


def convolve(layouts: Layouts, node: Node) -> Placed | None:
    given, constants = arguments(node), layouts.editing.constants
    x, weight, bias = args_of(node)[0], given["weight"], given["bias"]
    if given.get("transposed") or not is_float(x):
        return None
    if weight not in constants or bias is not None and bias not in constants:
        return None
    kernel = tuple(constants[weight].shape[2:])
    if x.meta["val"].dim() != len(kernel) + 2 or len(kernel) > 2:
        return None
    stride, dilation = (_both(given[name], len(kernel)) for name in ("stride", "dilation"))
    padding = _padding(given["padding"], kernel, dilation)
    placed = layouts.of_each_sample(x)
    if placed is None:
        return None
    placed, sides = _sides(placed, kernel, stride, padding, dilation)
    if given["groups"] > 1:
        return _of_groups(layouts, node, placed, sides, given["groups"])
    numbers = constants[weight]
    added = None if bias is None else constants[bias]
    return _as_linear(layouts, node, placed, sides, numbers, added)


def convolve_integers(layouts: Layouts, node: Node) -> Placed | None:
    """A dense convolution of integers, as a linear of them."""
    x, values, scales, bias, *given = args_of(node)
    kernel, stride, zeros, dilation = map(tuple, given)
    constants, placed = layouts.editing.constants, layouts.of_each_sample(x)
    if placed is None or values not in constants:
        return None
    placed, sides = _sides(placed, kernel, stride, _padding(zeros, kernel, dilation), dilation)
    numbers = constants[values].unflatten(1, (-1, *kernel))
    added = None if bias is None else constants[bias]
    return _as_linear(layouts, node, placed, sides, numbers, added, scales)


def _sides(
    placed: Placed,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[Placed, list[tuple[int, ...]]]:
    """A picture without the zeros around it, and a convolution's sides as operators have them."""
    placed, padding = _without_zeros(placed, padding)
    sides = [tuple(placed.index.shape[2:]), kernel, stride, padding, dilation]
    if len(kernel) == 1:  # a sound is a picture of one row
        front = ((1,), (1,), (1,), (0, 0), (1,))
        sides = [(*one, *side) for one, side in zip(front, sides, strict=True)]
    return placed, sides


def _of_groups(
    layouts: Layouts, node: Node, placed: Placed, sides: Sequence[tuple[int, ...]], groups: int
) -> Placed | None:
    given, constants = arguments(node), layouts.editing.constants
    weight, bias = constants[given["weight"]], constants.get(given["bias"])
    outputs = len(weight) // groups
    if weight.shape[1] == 1:
        repeated = Placed(
            placed.rows,
            placed.index.repeat_interleave(outputs, 1),
            None if placed.factor is None else placed.factor.repeat_interleave(outputs, 1),
        )
        return _depthwise(layouts, node, repeated if outputs > 1 else placed, sides)
    # Neighbouring groups are one dense convolution, with zeros between them, until its outputs fill
    # a block of a packed weight.
    together = next(
        n
        for n in range(1, groups + 1)
        if groups % n == 0 and (n * outputs >= BLOCK_ROWS or n == groups)
    )
    parts: list[Placed] = []
    size, inputs = together * outputs, together * weight.shape[1]
    for at in range(groups // together):
        mine = slice(at * size, (at + 1) * size)
        dense = _block_diagonal(weight[mine], together)
        some = placed.moved(_aten.slice.Tensor, (node, 1, at * inputs, (at + 1) * inputs), {})
        added = None if bias is None else bias[mine]
        part = _as_linear(layouts, node, some, sides, dense, added)
        if part is None:
            return None
        parts.append(part)
    while len(parts) > 1:  # in pairs, so that few numbers are copied often
        both = zip(parts[::2], parts[1::2], strict=False)
        pairs = [layouts.settling.joined(node, one, other, 1) for one, other in both]
        joined = [pair for pair in pairs if pair is not None]
        if len(joined) < len(pairs):
            return None
        parts = joined + parts[2 * len(pairs) :]
    return parts[0]


def _block_diagonal(weight: Tensor, groups: int) -> Tensor:
    outputs, inputs = len(weight) // groups, weight.shape[1]
    dense = weight.new_zeros(len(weight), groups * inputs, *weight.shape[2:])
    for group in range(groups):
        rows = slice(group * outputs, (group + 1) * outputs)
        dense[rows, group * inputs : (group + 1) * inputs] = weight[rows]
    return dense


def _depthwise(
    layouts: Layouts, node: Node, placed: Placed, sides: Sequence[tuple[int, ...]]
) -> Placed | None:
    """A convolution of each channel by itself."""
    given, editing = arguments(node), layouts.editing
    weight, rows = editing.constants[given["weight"]], channels_last(layouts, node, placed)
    if rows is None:
        return None
    taps = editing.fresh(node, weight.flatten(1).t().flatten())
    call = editing.call(
        node, _thimble.depthwise.default, rows, taps, given["bias"], *map(list, sides)
    )
    return _of_windows(layouts, call, sides, weight)


def _of_windows(
    layouts: Layouts, rows: Node, sides: Sequence[tuple[int, ...]], weight: Tensor
) -> Placed:
    """The value of a convolution whose rows are windows."""
    places = [windows(*side) for side in each_side(*sides)][4 - weight.dim() :]
    natural = layouts.natural(rows, (layouts.samples, *places, len(weight)))
    return Placed(rows, natural.index.movedim(-1, 1))


def _as_linear(
    layouts: Layouts,
    node: Node,
    placed: Placed,
    sides: Sequence[tuple[int, ...]],
    weight: Tensor,
    bias: Tensor | None,
    scales: Node | None = None,
) -> Placed | None:
    """The rows of a dense convolution.

    Args:
        sides: sizes, kernel, stride, padding, dilation, as operators have them.
        weight: (outputs, channels, ...).
        scales: of the integers of a weight; None: it is floats.
    """
    editing = layouts.editing
    planar = _is_planar(placed, prod(sides[0]))
    rows = placed.rows if planar else channels_last(layouts, node, placed)
    if rows is None:
        return None
    matrix = editing.fresh(node, (weight if planar else weight.movedim(1, -1)).flatten(1))
    if planar or sides[1:4] != [(1, 1), (1, 1), (0,) * 4]:
        rows = editing.call(node, _thimble.patches.default, rows, planar, *map(list, sides))
    added = None if bias is None else editing.fresh(node, bias)
    if scales is not None:
        linear = editing.call(node, _thimble.linear.default, rows, matrix, scales, added, 8, 0, 1)
    else:
        parts = (rows, matrix) if added is None else (rows, matrix, added)
        linear = editing.call(node, _aten.linear.default, *parts)
    return _of_windows(layouts, linear, sides, weight)


def channels_last(layouts: Layouts, node: Node, placed: Placed) -> Node | None:
    """Rows (batch, places, channels) of a value (batch, channels, ...)."""
    behind = placed.moved(_aten.movedim.int, (node, 1, -1), {})
    return layouts.rows(node, behind, placed.index.shape[1])


def _is_planar(placed: Placed, places: int) -> bool:
    """Whether rows are channels, of the places of a picture."""
    height, width = placed.size
    channels = placed.index.shape[1]
    if (height, width) != (channels, places) or channels == places == 1:
        return (height, width) == (channels, places) and placed.factor is None
    return placed.factor is None and start_of(placed.index) == 0


def pool(layouts: Layouts, node: Node) -> Placed | None:
    """The mean, or the largest number, of each window over a picture."""
    given = arguments(node)
    kernel = _both(given["kernel_size"], 2)
    stride = _both(given["stride"], 2) if given["stride"] else kernel
    padding, dilation = _both(given["padding"], 2), _both(given.get("dilation", 1), 2)
    if given.get("divisor_override"):
        return None
    largest = node.target is _aten.max_pool2d.default
    return _pooled(layouts, node, (kernel, stride, padding, dilation), largest)


def _pooled(
    layouts: Layouts, node: Node, sides: Sequence[tuple[int, ...]], largest: bool
) -> Placed | None:
    """
    Args:
        sides: kernel, stride, padding and dilation.
    """
    placed = layouts.of_each_sample(args_of(node)[0])
    if placed is None or placed.index.dim() != 4 or not is_float(node):
        return None
    _, channels, height, width = placed.index.shape
    places = _windows((height, width), sides, layouts.shape(node)[2:])
    if places is None:
        return None
    outside = places < 0
    if bool(outside.any()):
        if not largest:
            return None
        places = torch.where(outside, places.amax(1, keepdim=True), places)
    rows = channels_last(layouts, node, placed)
    if rows is None:
        return None
    table = layouts.editing.fresh(node, places.flatten().int())
    pooled = layouts.editing.call(
        node, _thimble.pool_rows.default, rows, table, prod(sides[0]), largest
    )
    shape = layouts.samples, *layouts.shape(node)[2:], channels
    return Placed(pooled, layouts.natural(pooled, shape).index.movedim(-1, 1))


def mean(layouts: Layouts, node: Node) -> Placed | None:
    """Over all places of each channel, or over equal parts of a picture."""
    given, placed = arguments(node), layouts.of_each_sample(args_of(node)[0])
    if placed is None or placed.factor is not None:
        return None
    dims, keeps = placed.index.dim(), True
    if node.target is _aten.mean.dim:
        over = sorted({dim % dims for dim in given["dim"] or ()})
        keeps = given["keepdim"]
        if given["dtype"] is not None:
            return None
    elif list(given["output_size"]) == [1, 1]:
        over = [dims - 2, dims - 1]
    else:
        sizes = list(zip(placed.index.shape[dims - 2 :], given["output_size"], strict=True))
        if any(size % parts for size, parts in sizes):
            return None
        kernel = tuple(size // parts for size, parts in sizes)
        return _pooled(layouts, node, (kernel, kernel, (0, 0), (1, 1)), False)
    left = [dim for dim in range(1, dims) if dim not in over]
    if not over or 0 in over or len(left) != 1:
        return None
    width = placed.index.shape[left[0]]
    ordered = placed.moved(_aten.permute.default, (node, [0, *over, *left]), {})
    if row_of(ordered) is None:
        return None
    rows = layouts.rows(node, ordered, width)
    if rows is None:
        return None
    means = layouts.editing.call(node, _aten.mean.dim, rows, [1], True)
    shape = [1 if dim in over else size for dim, size in enumerate(placed.index.shape)]
    return layouts.natural(means, shape if keeps else (layouts.samples, width))


def _windows(size: tuple[int, int], sides: Sequence[Any], out: Sequence[int]) -> Tensor | None:
    """Places (windows, numbers of each); -1 is outside the picture. None of what is cut off."""
    kernel, stride, padding, dilation = sides
    lines = []
    for dim in range(2):
        starts = torch.arange(out[dim]) * stride[dim] - padding[dim]
        line = starts[:, None] + torch.arange(kernel[dim]) * dilation[dim]
        lines.append(torch.where((line < 0) | (line >= size[dim]), -1, line))
    down, across = lines[0][:, None, :, None], lines[1][None, :, None, :]
    places = torch.where((down < 0) | (across < 0), -1, down * size[1] + across)
    flat = places.reshape(out[0] * out[1], -1)
    return None if bool((flat < 0).all(1).any()) else flat


def _padding(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """Zeros before and behind each side of a picture."""
    if padding == "same":
        both = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        return tuple(part for zeros in both for part in (zeros // 2, zeros - zeros // 2))
    numbers = _both(0 if padding == "valid" else padding, len(kernel))
    return tuple(part for zeros in numbers for part in (zeros, zeros))


def _without_zeros(placed: Placed, padding: tuple[int, ...]) -> tuple[Placed, tuple[int, ...]]:
    """A picture without the zeros around it, which a window then has outside."""
    zero = placed.index < 0
    added = list(padding)
    for dim in range(2, placed.index.dim()):
        filled = (~zero).movedim(dim, 0).flatten(1).any(1).nonzero()
        if not len(filled):
            return placed, padding
        first, last = int(filled[0]), int(filled[-1]) + 1
        added[2 * dim - 4] += first
        added[2 * dim - 3] += placed.index.shape[dim] - last
        placed = placed.moved(_aten.slice.Tensor, (placed.rows, dim, first, last), {})
        zero = placed.index < 0
    return placed, tuple(added)


def _both(numbers: Any, dims: int) -> Any:
    """A number for each side, where one may stand for all."""
    values = [numbers] if isinstance(numbers, int) else list(numbers)
    return tuple(values * dims if len(values) == 1 else values)
