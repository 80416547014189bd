"""Activations, powers and bounds that no operator keeps whole on the way to the edge dialect."""

import math
from typing import Any

import torch
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.rewrite.arithmetic import multiplied
from delegates.op_list.rewrite.layouts import Layouts
from delegates.op_list.rewrite.places import Placed
from delegates.passes.graph import arguments

_aten = torch.ops.aten
_NAMED = {
    _aten.relu6.default: "relu6",
    _aten.hardsigmoid.default: "hard_sigmoid",
    _aten.hardswish.default: "hard_swish",
}
_BOUNDS = (
    *(_aten.hardtanh.default, _aten.clamp.default),
    *(_aten.clamp_min.default, _aten.clamp_max.default),
)
_PRELUS = _aten.prelu.default, _aten._prelu_kernel.default
_POWERS = _aten.pow.Tensor_Scalar, _aten.square.default
POINTWISE = (*_NAMED, *_BOUNDS, *_PRELUS, *_POWERS, _aten.leaky_relu.default)


def pointwise(layouts: Layouts, node: Node) -> Placed | None:
    placed = layouts.whole(args_of(node)[0])
    if placed is None:
        return None
    if node.target in _PRELUS:
        return _prelu(layouts, node, placed)
    if node.target in _POWERS:
        return _power(layouts, node, placed)
    steps = _steps(node)
    if steps is None:
        return None
    rows = placed.rows
    for name, number in steps:
        rows = _call(layouts, node, rows, name, number)
    return Placed(rows, placed.index)


def _steps(node: Node) -> list[tuple[str, float]] | None:
    """Functions with their numbers, one after the other; None if a number is none."""
    given = arguments(node)
    if node.target is _aten.gelu.default:
        return [("gelu_tanh", 0.0)]
    if node.target in _NAMED:
        return [(_NAMED[node.target], 0.0)]
    if node.target is _aten.leaky_relu.default:
        return _numbers([("leaky_relu", given["negative_slope"])])
    low, high = (
        next((given[name] for name in names if name in given), None)
        for names in (("min", "min_val"), ("max", "max_val"))
    )
    if (low, high) == (0, 6):
        return [("relu6", 0.0)]
    return _numbers([step for step in (("least", low), ("most", high)) if step[1] is not None])


def _numbers(steps: list[tuple[str, Any]]) -> list[tuple[str, float]] | None:
    known = all(isinstance(x, int | float) and math.isfinite(x) for _, x in steps)
    return [(name, float(x)) for name, x in steps] if known and steps else None


def _prelu(layouts: Layouts, node: Node, placed: Placed) -> Placed | None:
    """max(x, 0) + weight * min(x, 0), a weight for each channel."""
    weight = layouts.table(args_of(node)[1])
    if weight is None:
        return None
    if weight.numel() == 1:
        rows = _call(layouts, node, placed.rows, "leaky_relu", float(weight))
        return Placed(rows, placed.index)
    below = Placed(_call(layouts, node, placed.rows, "most", 0.0), placed.index)
    table = weight.reshape(-1, *[1] * (placed.index.dim() - 2))
    scaled = multiplied(layouts, node, below, table)
    if scaled is None:
        return None
    above = layouts.editing.call(node, _aten.relu.default, placed.rows)
    return Placed(layouts.editing.call(node, _aten.add.Tensor, above, scaled.rows), placed.index)


def _power(layouts: Layouts, node: Node, placed: Placed) -> Placed | None:
    """The second and the third as products, which eager computes, too."""
    exponent = args_of(node)[1] if node.target is _aten.pow.Tensor_Scalar else 2
    # A square whose mean is wanted may be the beginning of an RMSNorm.
    if exponent not in (2, 3) or any(user.target is _aten.mean.dim for user in node.users):
        return None
    rows = placed.rows
    for _ in range(int(exponent) - 1):
        rows = layouts.editing.call(node, _aten.mul.Tensor, rows, placed.rows)
    return Placed(rows, placed.index)


def _call(layouts: Layouts, node: Node, rows: Node, name: str, number: float) -> Node:
    return layouts.editing.call(node, torch.ops.thimble.pointwise.default, rows, name, number)
