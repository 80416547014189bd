"""LayerNorm over the last dimension, whole, norms of groups of channels as LayerNorms, and RMSNorm
of heads."""

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.rewrite.arithmetic import added, multiplied
from delegates.op_list.rewrite.convolving import channels_last
from delegates.op_list.rewrite.editing import Editing, is_float
from delegates.op_list.rewrite.layouts import Layouts
from delegates.op_list.rewrite.places import Placed
from delegates.passes.graph import arguments

_aten = torch.ops.aten
_layer_norm = torch.ops.thimble.layer_norm.default
CHANNEL_NORMS = _aten.group_norm.default, _aten.instance_norm.default


def rewrite_norms(editing: Editing) -> None:
    target = _aten.layer_norm.default
    for node in list(editing.graph.find_nodes(op="call_function", target=target)):
        given = arguments(node)
        x, shape, weight, bias, eps = list(given.values())[:5]
        constants = all(part is None or part in editing.constants for part in (weight, bias))
        if is_float(x) and len(shape) == 1 and constants:
            call = editing.call(node, _layer_norm, x, shape, weight, bias, eps)
            node.replace_all_uses_with(call)
    editing.finish()


def norm_channels(layouts: Layouts, node: Node) -> Placed | None:
    """GroupNorm or InstanceNorm: the numbers of a group become a row, in the order they lie in."""
    given, constants = arguments(node), layouts.editing.constants
    parts = [given["weight"], given["bias"]]
    if any(part is not None and part not in constants for part in parts):
        return None
    if not given.get("use_input_stats", True):
        return None
    placed = layouts.of_each_sample(args_of(node)[0])
    whole = layouts.whole(args_of(node)[0]) if placed is not None else None
    if whole is None or not is_float(node):
        return None
    samples, channels = whole.index.shape[:2]
    groups = given.get("num_groups", channels)
    taken, order = whole.index.reshape(samples, groups, -1).sort(-1)
    size = taken.shape[-1]
    rows = layouts.rows(node, Placed(whole.rows, taken), size)
    if rows is None:
        return None
    places = order.argsort(-1) + torch.arange(samples * groups).view(samples, groups, 1) * size
    weight, bias = (
        None if part is None else constants[part].reshape(-1, *[1] * (whole.index.dim() - 2))
        for part in parts
    )
    there = Placed(rows, places.reshape(whole.index.shape))
    if groups == 1:  # which a LayerNorm multiplies and adds to itself
        numbers = [_numbers(layouts, node, there, part) for part in (weight, bias)]
        normed = layouts.editing.call(node, _layer_norm, rows, [size], *numbers, given["eps"])
        return Placed(normed, there.index)
    normed = layouts.editing.call(node, _layer_norm, rows, [size], None, None, given["eps"])
    result: Placed | None = Placed(normed, there.index)
    if weight is None and bias is None or result is None:
        return result
    last = channels_last(layouts, node, result)
    if last is None:
        return None
    shape = samples, *whole.index.shape[2:], channels
    result = Placed(last, layouts.natural(last, shape).index.movedim(-1, 1))
    if weight is not None:
        result = multiplied(layouts, node, result, weight)
    return result if bias is None else result and added(layouts, node, result, bias)


def norm_heads(layouts: Layouts, node: Node) -> Placed | None:
    """RMSNorm of heads (batch, rows, heads, head_dim), x * rsqrt(mean(x^2) + eps), or of such a
    norm what a weight makes: as it is spelled out, over rows in which heads are side by side."""
    if node.target is not _aten.mul.Tensor:
        return None
    for x, factor in (args_of(node), args_of(node)[::-1]):
        eps = _eps_of(x, factor)
        found = None if eps is None else layouts.heads(node, x)
        if found is not None:
            heads, sizes = found
            return layouts.side_by_side(node, _normed(layouts.editing, node, heads, eps), sizes)
        placed = layouts.place(x)
        normed = None if placed is None else _plain_norm(placed.rows)
        known = layouts.editing.constants.get(factor) if isinstance(factor, Node) else None
        if placed is None or normed is None or known is None:
            continue
        if known.shape == normed.meta["val"].shape[3:]:
            weighted = layouts.editing.call(node, _aten.mul.Tensor, normed, factor)
            return layouts.side_by_side(node, weighted, placed.index.shape)
    return None


def _eps_of(x: Any, factor: Any) -> Any:
    """Of a factor rsqrt(mean(x^2) + eps) of each head; None if it is none."""
    steps = _aten.rsqrt.default, _aten.add.Tensor, _aten.mean.dim, _aten.pow.Tensor_Scalar
    eps = None
    for step in steps:
        if not isinstance(factor, Node) or factor.target is not step or factor.kwargs:
            return None
        factor, *rest = args_of(factor)
        if step is _aten.add.Tensor:
            (eps,) = rest
        elif step is _aten.mean.dim and (rest[1:] != [True] or list(rest[0]) not in ([-1], [3])):
            return None
        elif step is _aten.pow.Tensor_Scalar and rest != [2]:
            return None
    is_of_heads = factor is x and is_float(x, 4) and isinstance(eps, float)
    return eps if is_of_heads else None


def _normed(editing: Editing, beside: Node, heads: Node, eps: float) -> Node:
    square = editing.call(beside, _aten.pow.Tensor_Scalar, heads, 2)
    mean = editing.call(beside, _aten.mean.dim, square, [-1], True)
    total = editing.call(beside, _aten.add.Tensor, mean, eps)
    factor = editing.call(beside, _aten.rsqrt.default, total)
    return editing.call(beside, _aten.mul.Tensor, heads, factor)


def _plain_norm(rows: Node) -> Node | None:
    """The norm of heads that _normed() wrote, if rows are it with heads side by side."""
    heads = args_of(rows)[0] if rows.target is _aten.reshape.default else None
    if heads is None or heads.target is not _aten.mul.Tensor:
        return None
    factor = args_of(heads)[1]
    return heads if isinstance(factor, Node) and factor.target is _aten.rsqrt.default else None


def _numbers(layouts: Layouts, node: Node, placed: Placed, channels: Tensor | None) -> Node | None:
    """A number for each of a row, of one for each channel."""
    if channels is None:
        return None
    table = layouts.settling.table(placed, channels)
    assert table is not None
    return layouts.editing.fresh(node, table[0])
