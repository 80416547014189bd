"""Long short-term memories: inputs add to the gates by a linear, and the steps are one operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.nn import functional as F

from delegates.op_list.graph import args_of
from delegates.op_list.layout import BLOCK_ROWS
from delegates.op_list.rewrite.layouts import Layouts
from delegates.op_list.rewrite.places import Placed, batch_dim
from delegates.passes.graph import arguments

_aten = torch.ops.aten
_GATES = [0, 1, 3, 2]  # in, forget, out, candidate; torch has the candidate third


@dataclass(frozen=True)
class _Direction:
    """
    Attributes:
        weights: (4 * units, width of the input) and (4 * units, units).
        biases: of both; empty: there are none.
        state: the first rows of hidden numbers and of cells; None: zeros.
    """

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    state: tuple[Node, Node] | None
    reverse: bool


@dataclass(frozen=True)
class _Steps:
    """Values (batch, steps, units) of one direction."""

    hidden: Placed
    cell: Placed
    reverse: bool

    def last(self, of: Placed) -> Placed:
        """(batch, units)"""
        step = 0 if self.reverse else -1
        taken: Placed = of.moved(_aten.select.int, (of.rows, 1, step), {})
        return taken


def lstm(layouts: Layouts, node: Node) -> list[Placed] | None:
    """Layers of one direction or two."""
    given = arguments(node)
    count, ways = given["num_layers"], 2 if given["bidirectional"] else 1
    weights = _constants(layouts, given["params"])
    each = 4 if given["has_biases"] else 2
    x = layouts.place(args_of(node)[0])
    if x is None or x.index.dim() != 3 or weights is None or len(weights) != count * ways * each:
        return None
    if given["train"] and given["dropout"]:
        return None
    if not given["batch_first"]:
        x = _turned(x)
    states = _states(layouts, node, given["hx"], count * ways)
    if states is None:
        return None
    ends: list[_Steps] = []
    for layer in range(count):
        sides = [
            _Direction(weights[at : at + 2], weights[at + 2 : at + each], states[way], way % 2 == 1)
            for way in range(ways)
            for at in [(layer * ways + way) * each]
        ]
        del states[:ways]
        steps = _layer(layouts, node, x, sides)
        if steps is None:
            return None
        ends += steps
        x = _joined(layouts, node, [one.hidden for one in steps], 2)
        if x is None:
            return None
    results = [x if given["batch_first"] else _turned(x)]
    for place, cells in ((1, False), (2, True)):
        if not _reads(node, place):
            results.append(results[0])
            continue
        last = [one.last(one.cell if cells else one.hidden) for one in ends]
        whole = [layouts.settling.natural(node, one) for one in last]
        known = [one.moved(_aten.unsqueeze.default, (one.rows, 0), {}) for one in whole if one]
        state = _joined(layouts, node, known, 0) if len(known) == len(last) else None
        if state is None:
            return None
        results.append(state)
    return results


def lstm_cell(layouts: Layouts, node: Node) -> list[Placed] | None:
    """One step."""
    given = arguments(node)
    names = ("w_ih", "w_hh", "b_ih", "b_hh")
    parts = [given[name] for name in names if given[name] is not None]
    weights, x = _constants(layouts, parts), layouts.place(args_of(node)[0])
    if x is None or x.index.dim() != 2 or weights is None or len(weights) not in (2, 4):
        return None
    hidden = [layouts.place(part) for part in given["hx"]]
    state = _state(layouts, node, hidden)
    if state is None:
        return None
    one = x.moved(_aten.unsqueeze.default, (x.rows, 1), {})
    steps = _layer(layouts, node, one, [_Direction(weights[:2], weights[2:], state, False)])
    return None if steps is None else [steps[0].last(steps[0].hidden), steps[0].last(steps[0].cell)]


def _layer(
    layouts: Layouts, node: Node, x: Placed, sides: Sequence[_Direction]
) -> list[_Steps] | None:
    editing = layouts.editing
    rows = layouts.rows(node, x, x.index.shape[2])
    if rows is None or x.index.shape[0] != layouts.samples or batch_dim(x) != 0:
        return None
    steps = []
    for side in sides:
        inner, outer = (editing.fresh(node, _blocks(weight)) for weight in side.weights)
        bias = []
        if side.biases:
            both = side.biases[0] + side.biases[1]
            bias.append(editing.fresh(node, _blocks(both[:, None])[:, 0]))
        gates = editing.call(node, _aten.linear.default, rows, inner, *bias)
        state = side.state or (None, None)
        run = torch.ops.thimble.lstm.default
        numbers = editing.call(node, run, gates, outer, *state, side.reverse)
        units = side.weights[1].shape[1]
        value = layouts.natural(numbers, (*x.index.shape[:2], 2 * units))
        hidden, cell = value.moved(_aten.split.Tensor, (numbers, units, 2), {})
        steps.append(_Steps(hidden, cell, side.reverse))
    return steps


def _blocks(weight: Tensor) -> Tensor:
    """The rows of gates as the operator wants them: of each 16 units, all of each gate."""
    gates = weight.unflatten(0, (4, -1))[_GATES]
    padded = F.pad(gates, (0, 0, 0, -gates.shape[1] % BLOCK_ROWS))
    return padded.unflatten(1, (-1, BLOCK_ROWS)).transpose(0, 1).flatten(0, 2)


def _constants(layouts: Layouts, nodes: Sequence[Any]) -> list[Tensor] | None:
    known = layouts.editing.constants
    return [known[node] for node in nodes] if all(node in known for node in nodes) else None


def _states(
    layouts: Layouts, node: Node, given: Sequence[Node], count: int
) -> list[tuple[Node, Node] | None] | None:
    """The first state of each direction of each layer; None in it: zeros."""
    tables = [layouts.table(part) for part in given]
    if all(table is not None and not bool(table.any()) for table in tables):
        return [None] * count
    placed = [layouts.place(part) for part in given]
    states = []
    for at in range(count):
        one = [x and x.moved(_aten.select.int, (x.rows, 0, at), {}) for x in placed]
        states.append(_state(layouts, node, one))
    return None if None in states else [*states]


def _state(
    layouts: Layouts, node: Node, placed: Sequence[Placed | None]
) -> tuple[Node, Node] | None:
    """Rows of hidden numbers and of cells (batch, units)."""
    known = [x for x in placed if x is not None]
    rows = [layouts.rows(node, x, x.index.shape[-1]) for x in known]
    both = [one for one in rows if one is not None]
    return (both[0], both[1]) if len(both) == 2 else None


def _joined(layouts: Layouts, node: Node, parts: Sequence[Placed], dim: int) -> Placed | None:
    whole: Placed | None = parts[0]
    for part in parts[1:]:
        whole = whole and layouts.settling.joined(node, whole, part, dim)
    return whole


def _turned(placed: Placed) -> Placed:
    """Steps before samples, or behind them."""
    turned: Placed = placed.moved(_aten.transpose.int, (placed.rows, 0, 1), {})
    return turned


def _reads(node: Node, place: int) -> bool:
    """Whether anything reads one of several results."""
    return any(args_of(user)[1] == place and user.users for user in node.users)
