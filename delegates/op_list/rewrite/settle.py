"""Puts numbers that were moved where an op wants them: rows as they are, some of their rows or
columns, or a gather.
"""

from math import gcd, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import shape_of
from delegates.op_list.rewrite.counting import are_equal, counting, start_of
from delegates.op_list.rewrite.editing import Editing
from delegates.op_list.rewrite.places import Placed, batch_dim, row_of

_aten = torch.ops.aten
_thimble = torch.ops.thimble
_MOST_PIECES = 1 << 20


class Settling:
    """
    Args:
        samples: for how many indices are computed.
    """

    def __init__(self, editing: Editing, samples: int) -> None:
        self._editing = editing
        self._samples = samples
        # What layers ask for alike; the values keep the tensors whose addresses are in the keys.
        self._aligned: dict[Any, tuple[Node | None, Placed, Placed]] = {}
        self._joined: dict[Any, tuple[Tensor, Tensor, Tensor]] = {}

    def rows(self, beside: Node, placed: Placed, width: int) -> Node | None:
        """Rows (batch, height, width) of a value's numbers in their order, samples in front; None
        if samples are mixed.

        Args:
            beside: the node before which new ones are.
        """
        dim = batch_dim(placed)
        if dim is None:
            return None
        one = self._first(placed.index, dim)
        if one.numel() % width:
            return None
        rows = self._taken(beside, placed, one.reshape(-1, width))
        if rows is None or placed.factor is None:
            return rows
        return self.times(beside, rows, self._first(placed.factor, dim).reshape(-1, width))

    def natural(self, beside: Node, placed: Placed) -> Placed | None:
        """Rows of the last dimension, in the order of the value."""
        width = placed.index.shape[-1]
        rows = self.rows(beside, placed, width)
        dim = batch_dim(placed)
        return None if rows is None or dim is None else self._ordered(rows, placed.index, dim)

    def compact(self, beside: Node, placed: Placed) -> Placed | None:
        """Rows that have each number once: in the order of those they are taken of, where these
        are a block; else in the value's."""
        dim = batch_dim(placed)
        if dim is None or placed.factor is not None or bool((placed.index < 0).any()):
            return self.natural(beside, placed)
        one = self._first(placed.index, dim)
        own, inverse = one.unique(return_inverse=True)
        height, width = placed.size
        if len(own) < one.numel() or len(own) % height and len(own) % width:
            return self.natural(beside, placed)
        for count in (len(own) // height, width):
            if len(own) % max(count, 1) == 0:
                rows = self._block(beside, placed, own.reshape(-1, count)) if count else None
                if rows is not None:
                    parts = [inverse + i * len(own) for i in range(self._samples)]
                    return Placed(rows, torch.cat(parts, dim))
        return self.natural(beside, placed)

    def joined(self, beside: Node, one: Placed, other: Placed, dim: int) -> Placed | None:
        """Two values behind each other."""
        factors = [x.factor for x in (one, other)]
        factor = None
        if factors != [None, None]:
            factor = torch.cat(
                [
                    torch.ones(x.index.shape) if f is None else f
                    for x, f in zip((one, other), factors, strict=True)
                ],
                dim,
            )
        if one.rows is other.rows:
            return Placed(one.rows, self._together(one.index, other.index, dim), factor)
        by_column = self._joined_columns(beside, one, other, dim, factor)
        if by_column is not None:
            return by_column
        if one.size[1] != other.size[1]:
            one_, other_ = self.natural(beside, one), self.natural(beside, other)
            if one_ is None or other_ is None:
                return None
            if one_.size[1] != other_.size[1]:
                return self._joined_columns(beside, one_, other_, dim, None)
            return self.joined(beside, one_, other_, dim)
        rows = self._editing.call(beside, _aten.cat.default, [one.rows, other.rows], 1)
        sizes = prod(one.size), prod(other.size)
        both = sum(sizes)

        def shifted(index: Tensor, size: int, by: int) -> Tensor:
            owner = index.div(size, rounding_mode="floor")
            return torch.where(index < 0, index, index + owner * (both - size) + by)

        index = [shifted(one.index, sizes[0], 0), shifted(other.index, sizes[1], sizes[0])]
        return Placed(rows, torch.cat(index, dim), factor)

    def _joined_columns(
        self, beside: Node, one: Placed, other: Placed, dim: int, factor: Tensor | None
    ) -> Placed | None:
        """Two values side by side, whose rows are in the same places."""
        moved = [Placed(x.rows, x.index.movedim(dim, -1)) for x in (one, other)]
        places = [row_of(x) for x in moved]
        if places[0] is None or places[1] is None or one.size[0] != other.size[0]:
            return None
        if places[0].shape != places[1].shape or bool((places[0] != places[1]).any()):
            return None
        rows = self._editing.call(beside, _aten.cat.default, [one.rows, other.rows], -1)
        width = one.size[1] + other.size[1]
        index = places[0][..., None] * width + torch.arange(width)
        return Placed(rows, index.movedim(-1, dim), factor)

    def aligned(self, beside: Node, other: Placed, whole: Placed) -> Node | None:
        """The rows of another value, each number where `whole` has that of the same place."""
        key = (other.rows, whole.size, *map(_form, (other.index, other.factor, whole.index)))
        if key not in self._aligned:
            self._aligned[key] = self._put_in_order(beside, other, whole), other, whole
        return self._aligned[key][0]

    def _put_in_order(self, beside: Node, other: Placed, whole: Placed) -> Node | None:
        try:
            index = other.index.expand(whole.index.shape)
        except RuntimeError:
            return None
        if other.factor is None and other.size == whole.size and are_equal(index, whole.index):
            return other.rows
        factor = None if other.factor is None else other.factor.expand(whole.index.shape)
        order = whole.order()
        height, width = whole.size
        shape = (self._samples, height, width)
        there = Placed(
            other.rows,
            index.flatten()[order].view(shape),
            None if factor is None else factor.flatten()[order].view(shape),
        )
        return self.rows(beside, there, width)

    def _together(self, one: Tensor, other: Tensor, dim: int) -> Tensor:
        key = (_form(one), _form(other), dim)
        if key not in self._joined:
            self._joined[key] = torch.cat([one, other], dim), one, other
        return self._joined[key][0]

    def one_of_row(self, other: Placed, whole: Placed) -> Node | None:
        """The rows of another value, where they have one number for each of `whole`."""
        row = row_of(whole)
        if row is None or other.size != (whole.size[0], 1) or other.factor is not None:
            return None
        if other.index.shape != (*row.shape, 1) or bool((other.index[..., 0] != row).any()):
            return None
        return other.rows

    def table(self, whole: Placed, table: Tensor) -> Tensor | None:
        """A constant (height, width), each number where `whole` has that of the same place; None
        if samples have different ones."""
        try:
            numbers = table.detach().expand(whole.index.shape)
        except RuntimeError:
            return None
        order = whole.order()
        numbers = numbers.flatten()[order].view(self._samples, *whole.size)
        return numbers[0] if bool((numbers == numbers[:1]).all()) else None

    def times(self, beside: Node, rows: Node, table: Tensor) -> Node:
        """Rows times a table (height, width)."""
        editing = self._editing
        if bool((table == table[0, 0]).all()):
            number = float(table[0, 0])
            return rows if number == 1 else editing.call(beside, _aten.mul.Tensor, rows, number)
        if bool((table == table[:1]).all()):
            vector = editing.fresh(beside, table[0])
            return editing.call(beside, _aten.mul.Tensor, rows, vector)
        return editing.call(beside, _aten.mul.Tensor, rows, self.repeated(beside, table, rows))

    def repeated(self, beside: Node, table: Tensor, rows: Node) -> Node:
        """A table (height, width) for each sample of some rows.

        These are of the call that gets the table: an input of the program may be no rows.
        """
        known = self._editing.fresh(beside, table)
        return self._editing.call(beside, _thimble.constant.default, known, rows)

    def shaped(self, node: Node, placed: Placed) -> Node | None:
        """A value of a node's own shape; None if samples are mixed."""
        dim, shape = batch_dim(placed), list(node.meta["val"].shape)
        if dim is None or not all(isinstance(size, int) for size in shape[:dim] + shape[dim + 1 :]):
            return None
        width = prod(placed.index.shape[2:] if len(shape) > 3 else placed.index.shape[-1:])
        rows = self.rows(node, placed, width)
        if rows is None or dim == 0 and shape_of(rows) == shape_of(node):
            return rows
        rest = placed.index.shape[dim] // self._samples
        if dim == 0:
            return self._editing.call(node, _aten.reshape.default, rows, [-1, *shape[1:]])
        front = self._editing.call(
            node, _aten.reshape.default, rows, [-1, *shape[:dim], rest, *shape[dim + 1 :]]
        )
        moved = self._editing.call(
            node,
            _aten.permute.default,
            front,
            [*range(1, dim + 1), 0, *range(dim + 1, len(shape) + 1)],
        )
        return self._editing.call(
            node, _aten.reshape.default, moved, [*shape[:dim], -1, *shape[dim + 1 :]]
        )

    def _first(self, numbers: Tensor, dim: int) -> Tensor:
        """Of the first sample."""
        return numbers.narrow(dim, 0, numbers.shape[dim] // self._samples)

    def _ordered(self, rows: Node, index: Tensor, dim: int) -> Placed:
        if dim == 0:
            return Placed(rows, counting(index.shape))
        one = self._first(index, dim)
        places = counting(one.shape)
        parts = [places + i * one.numel() for i in range(self._samples)]
        return Placed(rows, torch.cat(parts, dim))

    def _block(self, beside: Node, placed: Placed, index: Tensor) -> Node | None:
        """Rows as they are, or neighbouring rows or columns of them."""
        height, width = placed.size
        want_height, want_width = index.shape
        first = int(index[0, 0])
        if first < 0:
            return None
        if start_of(index) is not None:
            if (want_height, want_width) == (height, width):
                return placed.rows
            if want_width == width and first % width == 0:
                start = first // width
                return self._editing.call(
                    beside, _aten.slice.Tensor, placed.rows, 1, start, start + want_height
                )
        if want_height == height and first + want_width <= width:
            of_rows = torch.arange(height)[:, None] * width + torch.arange(want_width) + first
            if bool((index == of_rows).all()):
                return self._editing.call(
                    beside, _aten.slice.Tensor, placed.rows, 2, first, first + want_width
                )
        return None

    def _taken(self, beside: Node, placed: Placed, index: Tensor) -> Node | None:
        block = self._block(beside, placed, index)
        if block is not None:
            return block
        piece = _piece(index, placed.size[1])
        first = index.reshape(-1, piece)[:, 0]
        if len(first) > _MOST_PIECES:
            return self._turned(beside, placed, index)
        table = torch.where(first < 0, -1, first.div(piece, rounding_mode="floor")).int()
        places = self._editing.fresh(beside, table)
        return self._editing.call(
            beside, _thimble.gather.default, placed.rows, places, piece, index.shape[1]
        )

    def _turned(self, beside: Node, placed: Placed, index: Tensor) -> Node | None:
        """Columns as rows, of too many numbers for a gather: windows of one number over pictures of
        one line, whose channels are the rows."""
        height, width = placed.size
        if index.shape != (width, height) or index[0, 0] < 0:
            return None
        if start_of(index.t()) != 0:
            return None
        sides = [1, width], [1, 1], [1, 1], [0] * 4, [1, 1]
        return self._editing.call(beside, _thimble.patches.default, placed.rows, True, *sides)


def _form(numbers: Tensor | None) -> Any:
    return numbers if numbers is None else (numbers.data_ptr(), numbers.shape, numbers.stride())


def _piece(index: Tensor, width: int) -> int:
    """How many numbers stay together everywhere, and begin at a multiple of as many."""
    before, after = index[:, :-1], index[:, 1:]
    begins = torch.ones(index.shape, dtype=torch.bool)
    begins[:, 1:] = torch.where(before < 0, after >= 0, after != before + 1)
    starts = index[begins]
    places = begins.nonzero()[:, 1]
    numbers = torch.cat([places, starts[starts >= 0]]).numpy()
    return int(np.gcd.reduce(numbers, initial=gcd(index.shape[1], width)))
