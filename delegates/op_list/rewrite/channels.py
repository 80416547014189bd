"""Convolutions as linears of patches, with channels last: what a module has as (batch, channels,
...) stays rows (batch, places, channels) as long as nothing needs another order.
"""

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.operators import windows
from delegates.op_list.rewrite.editing import Editing, arguments, is_float

_aten = torch.ops.aten
_CONVOLUTIONS = (
    *(_aten.conv1d.default, _aten.conv2d.default, _aten.convolution.default),
    *(_aten.conv1d.padding, _aten.conv2d.padding),
)
_VIEWS = (
    *(_aten.view.default, _aten.reshape.default, _aten.flatten.using_ints),
    *(_aten._unsafe_view.default, _aten.squeeze.dim, _aten.unsqueeze.default),
)
_BATCH_NORM = _aten._native_batch_norm_legit_no_training.default
_SAME = _aten.clone.default, _aten.contiguous.default, _aten.dropout.default
_BY_NUMBER = (
    *(_aten.gelu.default, _aten.relu.default, _aten.silu.default, _aten.sigmoid.default),
    *(_aten.tanh.default, _aten.add.Tensor, _aten.mul.Tensor, _aten.div.Tensor),
)
# Rows, and the sides of the picture in which they lie.
Places = tuple[Node, tuple[int, ...]]
_TRANSPOSES = _aten.transpose.int, _aten.permute.default

_AS_THEY_ARE = (*_VIEWS, *_SAME, *_TRANSPOSES)  # of their source, which is put back where needed


class Channels:
    """The rows of nodes (batch, channels, ...), and how they lie in a picture."""

    def __init__(self, editing: Editing) -> None:
        self._editing = editing
        self._rows: dict[Node, Places] = {}

    def rewrite(self) -> None:
        for node in list(self._editing.graph.nodes):
            if node.op == "call_function" and is_float(node):
                self._visit(node)
        # What is still read in the old order is put in it; from the last on, so that readers come
        # first.
        for node in reversed(list(self._editing.graph.nodes)):
            if node in self._rows and node.users and node.target not in _AS_THEY_ARE:
                self._put_back(node, self._rows[node][0])
            if not node.users and not node.is_impure():
                self._editing.graph.erase_node(node)
        self._editing.finish()

    def _visit(self, node: Node) -> None:
        source = args_of(node)[0] if node.args else None
        known = self._rows.get(source) if isinstance(source, Node) else None
        if node.target in _CONVOLUTIONS:
            self._convolution(node)
        elif node.target in _BY_NUMBER:
            self._by_number(node)
        elif node.target in _TRANSPOSES:
            self._transpose(node, known)
        elif node.target is operator.getitem:
            self._batch_norm(node)
        elif known is None:
            return
        elif node.target in _SAME:
            self._rows[node] = known
        elif node.target in _VIEWS:
            self._view(node, known)
        elif node.target in (_aten.mean.dim, _aten.adaptive_avg_pool2d.default):
            self._mean(node, known)

    def _convolution(self, node: Node) -> None:
        given = arguments(node)
        x, weight, bias = args_of(node)[0], given["weight"], given["bias"]
        constants = self._editing.constants
        if given["groups"] != 1 or given.get("transposed") or not is_float(x):
            return
        if weight not in constants or bias is not None and bias not in constants:
            return
        kernel = tuple(constants[weight].shape[2:])
        if x.meta["val"].dim() != len(kernel) + 2 or len(kernel) > 2:
            return
        if isinstance(given["padding"], str):
            given["padding"] = _named_padding(given, kernel)
            if given["padding"] is None:
                return
        sides = [tuple(x.meta["val"].shape[2:]), kernel]
        sides += [_both(given[name], len(kernel)) for name in ("stride", "padding", "dilation")]
        if len(kernel) == 1:  # a sound is a picture of one row
            sides = [(one, *side) for one, side in zip((1, 1, 1, 0, 1), sides, strict=True)]
        self._rows[node] = self._as_linear(node, sides, len(kernel))

    def _as_linear(self, node: Node, sides: Sequence[tuple[int, ...]], dims: int) -> Places:
        """The rows of a convolution over `dims` sides of a picture.

        Args:
            sides: for each, sizes, kernel, stride, padding, dilation.
        """
        given = arguments(node)
        source, weight, bias = args_of(node)[0], given["weight"], given["bias"]
        numbers, rows = self._editing.constants[weight], self._rows.get(source)
        if rows is not None:
            source, numbers = rows[0], numbers.movedim(1, -1)
        name = "_planar" if rows is None else "_last"
        matrix = self._editing.constant(weight, name, numbers.flatten(1))
        if rows is None or sides[1:4] != [(1, 1), (1, 1), (0, 0)]:
            call = torch.ops.thimble.patches.default
            source = self._editing.call(node, call, source, rows is None, *map(list, sides))
        parts = (source, matrix) if bias is None else (source, matrix, bias)
        places = tuple(map(windows, *sides))
        return self._editing.call(node, _aten.linear.default, *parts), places[2 - dims :]

    def _by_number(self, node: Node) -> None:
        """A function of each number, of one operand or of two alike."""
        operands = [arg for arg in node.args if isinstance(arg, Node)]
        known = [self._rows.get(operand) for operand in operands]
        if any(rows is None for rows in known) or len({rows[1] for rows in known if rows}) != 1:
            return
        of = {operand: rows[0] for operand, rows in zip(operands, known, strict=True) if rows}
        args = [of[arg] if isinstance(arg, Node) else arg for arg in node.args]
        first = known[0]
        assert first is not None
        call = self._editing.call(node, node.target, *args, **node.kwargs)
        self._rows[node] = call, first[1]

    def _view(self, node: Node, known: Places) -> None:
        rows, places = known
        shape, channels = node.meta["val"].shape, rows.meta["val"].shape[2]
        if len(shape) == 2 and prod(places) == 1:
            flat = [-1, channels]
            node.replace_all_uses_with(self._editing.call(node, _aten.view.default, rows, flat))
        elif len(shape) > 2 and shape[1] == channels and prod(shape[2:]) == prod(places):
            self._rows[node] = rows, tuple(shape[2:])

    def _transpose(self, node: Node, known: Places | None) -> None:
        dims = node.meta["val"].dim()
        order = list(range(dims))
        if node.target is _aten.transpose.int:
            one, other = (dim % dims for dim in args_of(node)[1:])
            order[one], order[other] = other, one
        else:
            order = [dim % dims for dim in args_of(node)[1]]
        if known is not None and order == [0, *range(2, dims), 1]:
            rows, places = known
            if dims == 4:
                shape = [-1, *places, rows.meta["val"].shape[2]]
                rows = self._editing.call(node, _aten.view.default, rows, shape)
            node.replace_all_uses_with(rows)
        elif known is None and dims == 3 and order == [0, 2, 1]:
            self._rows[node] = args_of(node)[0], (node.meta["val"].shape[2],)

    def _batch_norm(self, node: Node) -> None:
        """Of a norm whose statistics are constants, its first result."""
        norm = args_of(node)[0]
        if norm.target is not _BATCH_NORM or args_of(node)[1] != 0:
            return
        given, constants = arguments(norm), self._editing.constants
        known = self._rows.get(args_of(norm)[0])
        center, spread = (constants.get(given[f"running_{part}"]) for part in ("mean", "var"))
        if known is None or center is None or spread is None:
            return
        factor = (spread.double() + given["eps"]).rsqrt()
        if given["weight"] is not None:
            factor = factor * constants[given["weight"]]
        moved = -center.double() * factor
        if given["bias"] is not None:
            moved = moved + constants[given["bias"]]
        factors = self._editing.constant(node, "_factor", factor.float())
        moves = self._editing.constant(node, "_moved", moved.float())
        scaled = self._editing.call(node, _aten.mul.Tensor, known[0], factors)
        self._rows[node] = self._editing.call(node, _aten.add.Tensor, scaled, moves), known[1]

    def _mean(self, node: Node, known: Places) -> None:
        rows, places = known
        given, keeps = arguments(node), True
        if node.target is _aten.mean.dim:
            dims = {dim % (len(places) + 2) for dim in given["dim"] or ()}
            keeps = given["keepdim"]
            if dims != set(range(2, len(places) + 2)) or given["dtype"] is not None:
                return
        elif list(given["output_size"]) != [1, 1]:
            return
        mean = self._editing.call(node, _aten.mean.dim, rows, [1], keeps)
        if keeps:
            self._rows[node] = mean, (1,) * len(places)
        else:
            node.replace_all_uses_with(mean)

    def _put_back(self, node: Node, rows: Node) -> None:
        turned = self._editing.call(node, _aten.transpose.int, rows, 1, 2)
        shape = [-1, *node.meta["val"].shape[1:]]
        node.replace_all_uses_with(self._editing.call(node, _aten.reshape.default, turned, shape))


def _named_padding(given: dict[str, Any], kernel: Sequence[int]) -> tuple[int, ...] | None:
    """Zeros on each side of a picture; None if one end has more than the other."""
    if given["padding"] == "valid":
        return (0,) * len(kernel)
    dilation = _both(given["dilation"], len(kernel))
    both = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
    return None if any(zeros % 2 for zeros in both) else tuple(zeros // 2 for zeros in both)


def _both(numbers: Any, dims: int) -> Any:
    """A number for each side, where one may stand for all."""
    values = [numbers] if isinstance(numbers, int) else list(numbers)
    return tuple(values * dims if len(values) == 1 else values)
