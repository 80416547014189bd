"""Recurrent layers: inputs add to the gates by a linear, and the steps are one operator."""

from collections.abc import Mapping, Sequence
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
LAYERS = _aten.lstm.input, _aten.gru.input, _aten.rnn_tanh.input, _aten.rnn_relu.input
STEPS = (
    *(_aten.lstm_cell.default, _aten.gru_cell.default),
    *(_aten.rnn_tanh_cell.default, _aten.rnn_relu_cell.default),
)
_ORDERS: Mapping[str, Sequence[int]] = {  # which of torch's gates the operator has, by cell
    "lstm": (0, 1, 3, 2),  # in, forget, out, candidate; torch has the candidate third
    "gru": (0, 1, 2),
}


@dataclass(frozen=True)
class _Direction:
    """
    Attributes:
        weights: (gates * units, width of the input) and (gates * units, units).
        biases: of both; empty: there are none.
        state: the first rows of hidden numbers, and of an LSTM's memory; empty: zeros.
    """

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    state: Sequence[Node]
    reverse: bool


@dataclass(frozen=True)
class _Steps:
    """Values (batch, steps, units) of one direction: hidden numbers, and those of a memory."""

    values: Sequence[Placed]
    reverse: bool

    def last(self, place: int) -> Placed:
        """(batch, units)"""
        of = self.values[place]
        taken: Placed = of.moved(_aten.select.int, (of.rows, 1, 0 if self.reverse else -1), {})
        return taken


def layers(layouts: Layouts, node: Node) -> list[Placed] | None:
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
    states = _states(layouts, node, _listed(given["hx"]), count * ways)
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
        x = _joined(layouts, node, [one.values[0] for one in steps], 2)
        if x is None:
            return None
    results = [x if given["batch_first"] else _turned(x)]
    for place in range(len(ends[0].values)):
        if not _reads(node, place + 1):
            results.append(results[0])
            continue
        whole = [layouts.settling.natural(node, one.last(place)) for one in ends]
        known = [one.moved(_aten.unsqueeze.default, (one.rows, 0), {}) for one in whole if one]
        state = _joined(layouts, node, known, 0) if len(known) == len(ends) else None
        if state is None:
            return None
        results.append(state)
    return results


def one_step(layouts: Layouts, node: Node) -> list[Placed] | Placed | None:
    """A cell: an LSTM's has two results."""
    given = arguments(node)
    names = ("w_ih", "w_hh", "b_ih", "b_hh")
    parts = [given[name] for name in names if given[name] is not None]
    weights, x = _constants(layouts, parts), layouts.place(args_of(node)[0])
    if x is None or x.index.dim() != 2 or weights is None or len(weights) not in (2, 4):
        return None
    hidden = _listed(given["hx"])
    state: Sequence[Node] | None = []
    if not _are_zeros(layouts, hidden):
        state = _state(layouts, node, [layouts.place(part) for part in hidden])
    if state is None:
        return None
    one = x.moved(_aten.unsqueeze.default, (x.rows, 1), {})
    steps = _layer(layouts, node, one, [_Direction(weights[:2], weights[2:], state, False)])
    if steps is None:
        return None
    results = [steps[0].last(place) for place in range(len(steps[0].values))]
    return results if len(results) > 1 else results[0]


def _layer(
    layouts: Layouts, node: Node, x: Placed, sides: Sequence[_Direction]
) -> list[_Steps] | None:
    editing, cell = layouts.editing, _cell(node)
    rows = layouts.rows(node, x, x.index.shape[2])
    if rows is None or x.index.shape[0] != layouts.samples or batch_dim(x) != 0:
        return None
    steps = []
    for side in sides:
        inner, outer = (editing.fresh(node, _blocks(cell, weight)) for weight in side.weights)
        biases = [editing.fresh(node, _blocks(cell, b[:, None])[:, 0]) for b in _biases(cell, side)]
        gates = editing.call(node, _aten.linear.default, rows, inner, *biases[:1])
        own = biases[1] if len(biases) > 1 else None
        hidden, memory = (*side.state, None, None)[:2]
        run = torch.ops.thimble.recurrent.default
        numbers = editing.call(node, run, gates, outer, own, hidden, memory, cell, side.reverse)
        units, count = side.weights[1].shape[1], 2 if cell == "lstm" else 1
        value = layouts.natural(numbers, (*x.index.shape[:2], count * units))
        parts = value.moved(_aten.split.Tensor, (numbers, units, 2), {})
        steps.append(_Steps(parts, side.reverse))
    return steps


def _cell(node: Node) -> str:
    """Its name in `thimble::recurrent`."""
    return str(node.target).split(".")[1].removesuffix("_cell")


def _biases(cell: str, side: _Direction) -> list[Tensor]:
    """What is added to the gates, and what to products of hidden numbers alone."""
    if not side.biases:
        return []
    of_input, of_hidden = side.biases
    both = of_input + of_hidden
    if cell != "gru":
        return [both]
    own = len(both) // 3 * 2  # where the candidates start: the reset gate multiplies theirs
    return [torch.cat([both[:own], of_input[own:]]), F.pad(of_hidden[own:], (own, 0))]


def _blocks(cell: str, weight: Tensor) -> Tensor:
    """The rows of gates as the operator wants them: of each 16 units, all of each gate."""
    order = list(_ORDERS.get(cell, (0,)))
    gates = weight.unflatten(0, (len(order), -1))[order]
    padded = F.pad(gates, (0, 0, 0, -gates.shape[1] % BLOCK_ROWS))
    return padded.unflatten(1, (-1, BLOCK_ROWS)).transpose(0, 1).flatten(0, 2)


def _constants(layouts: Layouts, nodes: Sequence[Any]) -> list[Tensor] | None:
    known = layouts.editing.constants
    return [known[node] for node in nodes] if all(node in known for node in nodes) else None


def _states(
    layouts: Layouts, node: Node, given: Sequence[Node], count: int
) -> list[Sequence[Node]] | None:
    """The first state of each direction of each layer; empty: zeros."""
    if _are_zeros(layouts, given):
        return [()] * count
    placed = [layouts.place(part) for part in given]
    states: list[Sequence[Node]] = []
    for at in range(count):
        one = [x and x.moved(_aten.select.int, (x.rows, 0, at), {}) for x in placed]
        state = _state(layouts, node, one)
        if state is None:
            return None
        states.append(state)
    return states


def _are_zeros(layouts: Layouts, state: Sequence[Node]) -> bool:
    tables = [layouts.table(part) for part in state]
    return all(table is not None and not bool(table.any()) for table in tables)


def _state(layouts: Layouts, node: Node, placed: Sequence[Placed | None]) -> Sequence[Node] | None:
    """Rows of hidden numbers, and of a memory (batch, units)."""
    known = [x for x in placed if x is not None]
    rows = [layouts.rows(node, x, x.index.shape[-1]) for x in known]
    whole = [one for one in rows if one is not None]
    return whole if len(whole) == len(placed) else None


def _listed(state: Node | Sequence[Node]) -> Sequence[Node]:
    """An LSTM has two."""
    return [state] if isinstance(state, Node) else state


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
