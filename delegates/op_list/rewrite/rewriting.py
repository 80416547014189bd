"""Writes each operator of a module anew, for the rows that its values are in."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.rewrite.arithmetic import added, batch_norm, multiplied
from delegates.op_list.rewrite.attending import attend
from delegates.op_list.rewrite.convolving import convolve, convolve_integers, mean, pool
from delegates.op_list.rewrite.counting import forget
from delegates.op_list.rewrite.editing import Editing, is_float, value_of
from delegates.op_list.rewrite.folding import BATCH_NORMS
from delegates.op_list.rewrite.layouts import Layouts
from delegates.op_list.rewrite.norms import CHANNEL_NORMS, norm_channels, norm_heads
from delegates.op_list.rewrite.places import (
    PADS,
    Placed,
    batch_dim,
    concrete,
    from_rows,
    is_of_any_batch,
    row_of,
)
from delegates.op_list.rewrite.pointwise import POINTWISE, pointwise
from delegates.op_list.rewrite.recurrent import LAYERS, STEPS, layers, one_step
from delegates.passes.graph import arguments

_aten = torch.ops.aten
_thimble = torch.ops.thimble
_MOVES = (
    *(_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default),
    *(_aten.flatten.using_ints, _aten.unflatten.int, _aten.squeeze.dim, _aten.squeeze.dims),
    *(_aten.squeeze.default, _aten.unsqueeze.default, _aten.transpose.int, _aten.permute.default),
    *(_aten.select.int, _aten.slice.Tensor, _aten.narrow.default, _aten.expand.default),
    *(_aten.clone.default, _aten.contiguous.default, _aten.alias.default, _aten.detach.default),
    *(_aten.roll.default, _aten.flip.default, _aten.t.default, _aten.movedim.int),
    *(_aten.repeat.default, _aten.split.Tensor, _aten.split_with_sizes.default),
    *(_aten.chunk.default, _aten.unbind.int, _aten.pixel_shuffle.default),
    *(_aten.pixel_unshuffle.default, _aten.constant_pad_nd.default, _aten.pad.default),
    *(_aten.expand_as.default, _aten.view_as.default, _aten.numpy_T.default),
)
_SAME = (_aten.dropout.default, _aten.feature_dropout.default)
_TYPES = _aten.to.dtype, _aten._to_copy.default, _aten.type_as.default
_BY_NUMBER = (
    *(_aten.gelu.default, _aten.relu.default, _aten.silu.default, _aten.sigmoid.default),
    *(_aten.tanh.default, _aten.elu.default, _aten.exp.default, _aten.abs.default),
)
_BINARY = (_aten.add.Tensor, _aten.mul.Tensor, _aten.div.Tensor, _aten.sub.Tensor)
_CONVOLUTIONS = (
    *(_aten.conv1d.default, _aten.conv2d.default, _aten.convolution.default),
    *(_aten.conv1d.padding, _aten.conv2d.padding),
)
_POOLS = _aten.avg_pool2d.default, _aten.max_pool2d.default
_MEANS = _aten.mean.dim, _aten.adaptive_avg_pool2d.default


class Rewriting(Layouts):
    """Goes through a graph once, in place."""

    def __init__(self, editing: Editing, sample: Node) -> None:
        super().__init__(editing, sample)
        self._computed: set[Node] = set()
        self._visit_by = self._visitors()

    def rewrite(self) -> None:
        for node in list(self.editing.graph.nodes):
            if node.op == "call_function":
                self._visit(node)
        for node in reversed(list(self.editing.graph.nodes)):
            if isinstance(self._placed.get(node), Placed) and self._is_read(node):
                self._put_back(node)
            # Dropout counts as random, and would be kept where nothing reads it.
            if not node.users and (node in self._placed or not node.is_impure()):
                self.editing.graph.erase_node(node)
        self.editing.finish()
        forget()

    def _is_read(self, node: Node) -> bool:
        """Whether something reads it that was not written anew."""
        return bool(node.users)

    def _visit(self, node: Node) -> None:
        visit = self._visit_by.get(node.target)
        if str(node.target) == "thimble.linear.default":
            visit = self._by_row
        elif str(node.target) == "thimble.sample_norm.default":
            visit = self._by_row
        elif str(node.target) == "thimble.rotate.default":
            visit = self._rotated
        elif str(node.target) == "thimble.segment_attention.default":
            visit = partial(self._rotated, count=3)
        elif str(node.target) == "thimble.relative_scores.default":
            visit = self._scored
        elif str(node.target) == "thimble.convolution.default":
            visit = partial(convolve_integers, self)
        placed = visit(node) if visit is not None else None
        if placed is not None:
            self._placed[node] = placed
            moves = node.target in (*_MOVES, *_SAME, *_TYPES, operator.getitem)
            if not moves:
                self._computed.add(node)

    def _visitors(self) -> dict[Any, Callable[[Node], Any]]:
        kinds: tuple[tuple[Any, Callable[[Node], Any]], ...] = (
            (_MOVES, self._moved),
            (_SAME, lambda node: self.place(args_of(node)[0])),
            (_TYPES, self._as_type),
            ((operator.getitem,), self._item),
            ((_aten.cat.default, _aten.concat.default, _aten.stack.default), self._joined),
            (_BY_NUMBER, self._by_number),
            (POINTWISE, lambda node: pointwise(self, node)),
            (_BINARY, self._binary),
            ((_aten.neg.default,), self._negated),
            ((_aten.linear.default, _thimble.layer_norm.default), self._by_row),
            ((_aten.matmul.default,), self._by_matrix),
            (_CONVOLUTIONS, lambda node: convolve(self, node)),
            (_POOLS, lambda node: pool(self, node)),
            (_MEANS, lambda node: mean(self, node)),
            (BATCH_NORMS, lambda node: batch_norm(self, node)),
            (CHANNEL_NORMS, lambda node: norm_channels(self, node)),
            (LAYERS, lambda node: layers(self, node)),
            (STEPS, lambda node: one_step(self, node)),
            ((_aten.scaled_dot_product_attention.default,), lambda node: attend(self, node)),
        )
        return {target: visit for targets, visit in kinds for target in targets}

    def _moved(self, node: Node) -> Any:
        source = self.place(args_of(node)[0])
        if source is None or not all(self._is_size(arg) for arg in node.args[1:]):
            return None
        if node.target in PADS:
            given = arguments(node)
            if given.get("mode", "constant") != "constant" or given["value"] not in (None, 0):
                return None
        if node.target is _aten.roll.default and not isinstance(self._batch, int):
            given, dims = arguments(node), source.index.dim()
            if batch_dim(source) in [dim % dims for dim in given["dims"] or range(dims)]:
                return None  # by as many as indices are computed for, it seems to move nothing
        args = concrete(self.editing, list(node.args))
        try:
            moved = source.moved(node.target, args, node.kwargs)
        except RuntimeError:  # of a size that only other numbers of samples have
            return None
        values, results = node.meta["val"], moved if isinstance(moved, list) else [moved]
        for one, value in zip(results, values if results is moved else [values], strict=True):
            if not one.index.numel() or list(one.index.shape) != concrete(
                self.editing, list(value.shape)
            ):
                return None
            if not isinstance(self._batch, int) and not is_of_any_batch(one, value):
                return None
        return moved

    def _is_size(self, arg: Any) -> bool:
        parts = arg if isinstance(arg, list | tuple) else [arg]
        return not any(isinstance(part, Node) and value_of(part) is not None for part in parts)

    def _item(self, node: Node) -> Placed | None:
        source, item = args_of(node)
        known = self._placed.get(source)
        return known[item] if isinstance(known, list) else None

    def _joined(self, node: Node) -> Placed | None:
        parts, dim = (*args_of(node), 0)[:2]
        if not is_float(node):
            return None
        placed = self.all_placed(node, parts)
        if placed is None:
            return None
        if node.target is _aten.stack.default:
            placed = [x.moved(_aten.unsqueeze.default, (x.rows, dim), {}) for x in placed]
        whole: Placed | None = placed[0]
        for part in placed[1:]:
            whole = whole and self.settling.joined(node, whole, part, dim)
        return whole

    def _as_type(self, node: Node) -> Placed | None:
        return self.place(args_of(node)[0]) if is_float(node) else None

    def _by_number(self, node: Node) -> Placed | None:
        if node.kwargs.get("approximate") == "tanh":  # other delegates have only the exact GELU
            return pointwise(self, node)
        placed = self.whole(args_of(node)[0])
        if placed is None:
            return None
        rows = self.editing.call(node, node.target, placed.rows, *node.args[1:], **node.kwargs)
        return Placed(rows, placed.index)

    def _negated(self, node: Node) -> Placed | None:
        placed = self.place(args_of(node)[0])
        if placed is None:
            return None
        factor = torch.ones(placed.index.shape) if placed.factor is None else placed.factor
        return Placed(placed.rows, placed.index, -factor)

    def _binary(self, node: Node) -> Placed | None:
        if node.kwargs or not is_float(node) or len(node.args) != 2:
            return None
        normed = norm_heads(self, node)
        if normed is not None:
            return normed
        left, right = args_of(node)
        adds = node.target in (_aten.add.Tensor, _aten.sub.Tensor)
        inverse = node.target in (_aten.sub.Tensor, _aten.div.Tensor)
        tables = self.table(left), self.table(right)
        shape = self.shape(node)
        if tables[1] is not None or tables[0] is not None and not inverse:
            table = tables[0] if tables[1] is None else tables[1]
            assert table is not None
            source = right if tables[1] is None else left
            if inverse:
                table = -table if adds else 1 / table
            known = right if source is left else left
            stored = not isinstance(known, Node) or known in self.editing.constants
            if stored and source not in self._placed:  # its readers know it as it is
                return None
            placed = self.whole(source)
            if placed is None or tuple(placed.index.shape) != shape:
                return None
            run = added if adds else multiplied
            return run(self, node, placed, table)
        if node.target is _aten.div.Tensor:
            return None
        one, other = (self.place(x) for x in (left, right))
        if one is None or other is None:
            return None
        if node.target is _aten.sub.Tensor:
            other = Placed(
                other.rows,
                other.index,
                -torch.ones(other.index.shape) if other.factor is None else -other.factor,
            )
        elif tuple(one.index.shape) != shape:
            one, other, left = other, one, right
        if tuple(one.index.shape) != shape:
            return None
        whole = self.whole(left)
        if whole is None:
            return None
        aligned = None if adds else self.settling.one_of_row(other, whole)
        aligned = aligned or self.settling.aligned(node, other, whole)
        if aligned is None:
            return None
        target = _aten.add.Tensor if adds else _aten.mul.Tensor
        return Placed(self.editing.call(node, target, whole.rows, aligned), whole.index)

    def _by_row(self, node: Node) -> Placed | None:
        """A linear, or a norm, of the last dimension."""
        source, *rest = node.args
        width = self.shape(node)[-1]
        placed = self.last_is_width(node, source)
        if placed is None:
            return None
        rows = self.editing.call(node, node.target, placed.rows, *rest, **node.kwargs)
        row = row_of(placed)
        assert row is not None
        return from_rows(rows, row) if width else None

    def _rotated(self, node: Node, count: int = 1) -> Placed | None:
        """Heads (batch, rows, heads, head_dim), by the places of their rows; `count` values are
        such heads."""
        found = self._by_heads(node, count)
        if found is None:
            return None
        return self.side_by_side(node, *found)

    def _scored(self, node: Node) -> Placed | None:
        """Scores (batch, heads * rows, rows) of heads."""
        found = self._by_heads(node)
        return None if found is None else self.natural(found[0], self.shape(node))

    def _by_heads(self, node: Node, count: int = 1) -> tuple[Node, torch.Size] | None:
        """An operator of `count` heads (batch, rows, heads, head_dim) and of constants, and the
        first heads' sizes; None if they are none."""
        found = [self.heads(node, source) for source in node.args[:count]]
        known = [one for one in found if one is not None]
        if len(known) < count:
            return None
        settled, rest = [heads for heads, _ in known], node.args[count:]
        return self.editing.call(node, node.target, *settled, *rest), known[0][1]

    def _by_matrix(self, node: Node) -> Placed | None:
        """A product with a constant matrix."""
        source, matrix = args_of(node)
        known = self.editing.constants.get(matrix)
        placed = self.last_is_width(node, source)
        if known is None or known.dim() != 2 or placed is None:
            return None
        weight = self.editing.fresh(node, known.t())
        rows = self.editing.call(node, _aten.linear.default, placed.rows, weight)
        row = row_of(placed)
        return None if row is None else from_rows(rows, row)

    def _put_back(self, node: Node) -> None:
        """Gives those that read a value its own shape."""
        placed = self._placed[node]
        if node not in self._computed and self._is_own(node):
            return
        back = self.settling.shaped(node, placed)
        if back is not None:
            node.replace_all_uses_with(back)

    def _is_own(self, node: Node) -> bool:
        """Whether it only moves numbers of what was not written anew."""
        while node in self._placed and node not in self._computed:
            source = args_of(node)[0] if node.args else None
            if not isinstance(source, Node):
                return False
            node = source
        return node not in self._placed
