"""LayerNorm over the last dimension, whole, and norms of groups of channels as LayerNorms."""

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


def _numbers(layouts: Layouts, node: Node, placed: Placed, channels: Tensor | None) -> Node | None:
    """A number for each of a row, of one for each channel."""
    if channels is None:
        return None
    table = layouts.settling.table(placed, channels)
    assert table is not None
    return layouts.editing.fresh(node, table[0])
