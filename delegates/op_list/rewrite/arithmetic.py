"""Sums and products of rows with constants."""

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.rewrite.editing import value_of
from delegates.op_list.rewrite.folding import factors
from delegates.op_list.rewrite.layouts import Layouts
from delegates.op_list.rewrite.places import Placed

_aten = torch.ops.aten


def multiplied(layouts: Layouts, beside: Node, placed: Placed, table: Tensor) -> Placed | None:
    """Whole rows times a constant that broadcasts to their value."""
    numbers = layouts.settling.table(placed, table)
    if numbers is None:
        return None
    rows = layouts.settling.times(beside, placed.rows, numbers)
    return Placed(rows, placed.index)


def added(layouts: Layouts, beside: Node, placed: Placed, table: Tensor) -> Placed | None:
    """Whole rows plus a constant that broadcasts to their value."""
    numbers = layouts.settling.table(placed, table)
    if numbers is None:
        return None
    same = bool((numbers == numbers[:1]).all())
    known = layouts.editing.fresh(beside, numbers[0] if same else numbers)
    return Placed(layouts.editing.call(beside, _aten.add.Tensor, placed.rows, known), placed.index)


def batch_norm(layouts: Layouts, node: Node) -> Any:
    """A norm whose statistics are constants."""
    placed, known = layouts.whole(args_of(node)[0]), factors(layouts.editing, node)
    if placed is None or known is None:
        return None
    factor, moved = known
    shape = [-1] + [1] * (placed.index.dim() - 2)
    normed = multiplied(layouts, node, placed, factor.float().view(shape))
    normed = normed and added(layouts, node, normed, moved.float().view(shape))
    return normed if value_of(node) is not None or normed is None else [normed]
