"""Constants that are repeated for each sample: class tokens, queries, positions."""

from typing import Any

import torch
from torch.fx import Node

from delegates.op_list.rewrite.editing import Editing, is_float

_aten = torch.ops.aten
_BINARY = (_aten.add.Tensor, _aten.mul.Tensor)


def rewrite_repeated(editing: Editing, sample: Node) -> None:
    """
    Args:
        sample: an input, whose first size is the batch.
    """
    batch = sample.meta["val"].shape[0]
    for node in list(editing.graph.nodes):
        if node.target in _BINARY:
            for source in node.all_input_nodes:
                if source.target is _aten.expand.default and source.args[0] in editing.constants:
                    node.replace_input_with(source, source.args[0])
        elif node.target is _aten.expand.default and node.args[0] in editing.constants:
            if is_float(node, 3) and node.meta["val"].shape[0] == batch:
                node.replace_all_uses_with(_repeated(editing, node, node.args[0], sample))
        elif node.target is _aten.cat.default and is_float(node):
            _join_in_pairs(editing, node, sample)
    editing.finish()


def _is_table(node: Any) -> bool:
    """Whether a constant is (1, rows, width)."""
    return is_float(node, 3) and node.meta["val"].shape[0] == 1


def _repeated(editing: Editing, beside: Node, table: Any, sample: Node) -> Node:
    shape = beside.meta["val"].shape if beside.target is _aten.expand.default else None
    known = editing.constants[table]
    rows = editing.constant(
        table, "_rows", (known if shape is None else known.expand(1, *shape[1:]))[0]
    )
    return editing.call(beside, torch.ops.thimble.constant.default, rows, sample)


def _join_in_pairs(editing: Editing, node: Node, sample: Node) -> None:
    parts, dim = (*node.args, 0)[:2]
    assert isinstance(parts, list | tuple) and isinstance(dim, int)
    given = [
        _repeated(editing, node, part, sample)
        if part in editing.constants and _is_table(part)
        else part
        for part in parts
    ]
    if not dim or any(part in editing.constants for part in given):
        return
    joined: Any = given[0]
    for part in given[1:]:
        joined = editing.call(node, _aten.cat.default, [joined, part], dim)
    node.replace_all_uses_with(joined)
