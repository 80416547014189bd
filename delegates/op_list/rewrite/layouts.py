"""A module's values as rows (batch, height, width), whatever their own shapes are.

What a module has as (batch, channels, ...), as heads before rows, as windows or with the batch
behind stays the rows of one op as long as an op can read them: only their places change.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.node import map_arg

from delegates.op_list.rewrite.counting import counting
from delegates.op_list.rewrite.editing import Editing, is_float, value_of
from delegates.op_list.rewrite.places import SAMPLES, Placed, batch_dim, concrete, row_of
from delegates.op_list.rewrite.settle import Settling

_aten = torch.ops.aten
_SIZED = (
    *(_aten.expand.default, _aten.view.default, _aten.reshape.default),
    *(_aten._unsafe_view.default, _aten.zeros.default, _aten.ones.default, _aten.repeat.default),
)
_MOST_NUMBERS = 1 << 24  # of a constant that is computed here


class Layouts:
    """
    Args:
        sample: an input, whose first size is the batch.
    """

    def __init__(self, editing: Editing, sample: Node) -> None:
        self.editing = editing
        self.sample = sample
        self._batch = sample.meta["val"].shape[0]
        self.samples = self._batch if isinstance(self._batch, int) else SAMPLES
        self.settling = Settling(editing, self.samples)
        self._placed: dict[Node, Any] = {}
        self._own: dict[Node, Placed] = {}
        self._constants: dict[Node, Tensor | None] = {}
        self.biases: dict[Node, Node] = {}  # of masks that inputs give

    def place(self, node: Any) -> Placed | None:
        """A value's rows; those of what was not written anew are itself."""
        if not isinstance(node, Node):
            return None
        known = self._placed.get(node)
        if isinstance(known, Placed):
            return known
        if node not in self._own and self._is_of_samples(node):
            self._own[node] = self._as_it_is(node)
        return self._own.get(node)

    def of_each_sample(self, node: Any) -> Placed | None:
        """A value's rows where its first dimension is the batch: of one sample, a view may make
        several pictures."""
        placed = self.place(node)
        if placed is None or placed.index.shape[0] != self.samples or batch_dim(placed) != 0:
            return None
        return placed

    def table(self, node: Any) -> Tensor | None:
        """What no input changes: a constant, perhaps repeated for each sample; else None."""
        if isinstance(node, int | float):
            return torch.tensor(float(node))
        known = self._constant(node) if isinstance(node, Node) else None
        return known if known is not None and known.dtype in (torch.float32, torch.bool) else None

    def _constant(self, node: Node) -> Tensor | None:
        if node in self.editing.constants:
            return self.editing.constants[node]
        if node not in self._constants:
            self._constants[node] = self._evaluated(node)
        return self._constants[node]

    def _evaluated(self, node: Node) -> Tensor | None:
        target: Any = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            return None
        tags, namespace = target.tags, target.namespace
        if torch.Tag.nondeterministic_seeded in tags or namespace != "aten":
            return None
        if value_of(node) is None or prod(self.shape(node)) > _MOST_NUMBERS:
            return None
        given = {x: self._constant(x) for x in node.all_input_nodes if value_of(x) is not None}
        if any(known is None for known in given.values()) or target._schema.is_mutable:
            return None
        if self._counts_samples(node):
            return None
        args, kwargs = concrete(self.editing, (list(node.args), list(node.kwargs.values())))
        args, kwargs = map_arg((args, kwargs), lambda x: given[x])
        with torch.no_grad():
            result: Tensor = target(*args, **dict(zip(node.kwargs, kwargs, strict=True)))
        return result

    def _counts_samples(self, node: Node) -> bool:
        """Whether the numbers of what no input changes may depend on how many samples there are."""
        sizes = [x for x in node.all_input_nodes if value_of(x) is None]
        if sizes and node.target not in _SIZED:
            return True
        constants = [x for x in node.all_input_nodes if value_of(x) is not None]
        return not _differs(node) and any(map(_differs, constants))

    def whole(self, node: Node) -> Placed | None:
        """A value as rows that have each of its numbers once."""
        placed = self.place(node)
        if placed is None or placed.factor is None and placed.is_whole():
            return placed
        return self.settling.compact(node, placed)

    def rows(self, node: Node, index: Placed | None, width: int) -> Node | None:
        """Rows of some width that have a value's numbers in the order of an index."""
        return None if index is None else self.settling.rows(node, index, width)

    def heads(self, beside: Node, source: Any) -> tuple[Node, torch.Size] | None:
        """A value (batch, rows, heads, head_dim) whose heads are side by side in a row, and its
        sizes; None if it is none."""
        placed = self.of_each_sample(source)
        if placed is None or placed.index.dim() != 4:
            return None
        _, height, heads, dim = placed.index.shape
        rows = self.rows(beside, placed, heads * dim)
        if rows is None:
            return None
        sizes = [-1, height, heads, dim]
        return self.editing.call(beside, _aten.reshape.default, rows, sizes), placed.index.shape

    def side_by_side(self, beside: Node, heads: Node, sizes: torch.Size) -> Placed:
        """What became of heads() of some sizes, as rows again."""
        _, height, count, dim = sizes
        rows = self.editing.call(beside, _aten.reshape.default, heads, [-1, height, count * dim])
        return self.natural(rows, sizes)

    def natural(self, rows: Node, shape: Any) -> Placed:
        """Rows whose numbers are those of a shape in its order, whose batch is in front."""
        return Placed(rows, counting(shape))

    def shape(self, node: Node) -> tuple[int, ...]:
        """A value's sizes, of as many samples as indices are computed for."""
        return tuple(concrete(self.editing, list(node.meta["val"].shape)))

    def _is_of_samples(self, node: Node) -> bool:
        value = value_of(node)
        return (
            is_float(node)
            and value is not None
            and value.dim() > 1
            and prod(value.shape[1:]) > 0
            and str(value.shape[0]) == str(self._batch)
            and node not in self.editing.constants
            and self.table(node) is None
        )

    def _as_it_is(self, node: Node) -> Placed:
        shape = self.shape(node)
        rows = node
        if len(shape) != 3:
            sizes = [shape[1], prod(shape[2:])] if len(shape) > 3 else [1, shape[1]]
            place = node.next
            while place.op == "placeholder":
                place = place.next
            rows = self.editing.call(place, _aten.reshape.default, node, [-1, *sizes])
        return self.natural(rows, shape)

    def repeated(self, beside: Node, part: Any, rows: Node) -> Placed | None:
        """A constant as rows of each sample of others."""
        table = self.table(part)
        if table is None or table.dim() < 2 or table.shape[0] not in (1, self.samples):
            return None
        if table.dtype is not torch.float32 or bool((table != table[:1]).any()):
            return None
        one = table[0].reshape(-1, table.shape[-1])
        numbers = self.settling.repeated(beside, one, rows)
        return self.natural(numbers, (self.samples, *table.shape[1:]))

    def all_placed(self, beside: Node, parts: Sequence[Any]) -> list[Placed] | None:
        """Values and constants; None if one is neither, or no value is among them."""
        placed = [self.place(part) for part in parts]
        rows = next((one.rows for one in placed if one is not None), None)
        if rows is None:
            return None
        whole = [
            one if one is not None else self.repeated(beside, part, rows)
            for one, part in zip(placed, parts, strict=True)
        ]
        known = [one for one in whole if one is not None]
        return known if len(known) == len(parts) else None

    def last_is_width(self, beside: Node, source: Any) -> Placed | None:
        """A value as rows of its last dimension, each once."""
        placed = self.place(source)
        if placed is None:
            return None
        if placed.factor is not None or row_of(placed) is None or not placed.is_whole():
            placed = self.settling.natural(beside, placed)
        return None if placed is None or row_of(placed) is None else placed


def _differs(node: Node) -> bool:
    """Whether the shape of a value differs from call to call."""
    value = value_of(node)
    return value is not None and not all(isinstance(size, int) for size in value.shape)
