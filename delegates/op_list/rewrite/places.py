"""Where the numbers of a value lie in rows (batch, height, width).

Views, permutes, slices and what else only moves numbers are computed here on their indices:
a value is rows, and for each of its numbers the place in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.node import map_arg

from delegates.op_list.rewrite.counting import counting, has_each_once, start_of
from delegates.op_list.rewrite.editing import Editing, value_of

PADS = torch.ops.aten.constant_pad_nd.default, torch.ops.aten.pad.default
SAMPLES = 2  # of a batch that differs from call to call, while indices are computed


@dataclass(frozen=True)
class Placed:
    """
    Attributes:
        rows: a node (batch, height, width) of the program.
        index: of the value's shape: places in its rows, all samples behind each other; -1: zero.
        factor: by which each number is multiplied, of the value's shape; None: it is not.
    """

    rows: Node
    index: Tensor
    factor: Tensor | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of its rows."""
        height, width = self.rows.meta["val"].shape[1:]
        return int(height), int(width)

    def moved(self, target: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """This value after an operator that only moves numbers; several values of some."""

        def call(x: Tensor) -> Any:
            given = map_arg(args, lambda _: x)
            return target(*given, **kwargs)

        factor = None if self.factor is None else call(self.factor)
        if target in PADS:  # with zeros, which then are -1
            return Placed(self.rows, call(self.index + 1) - 1, factor)
        index = call(self.index)
        if isinstance(index, Tensor):
            return Placed(self.rows, index, factor)
        factors = [None] * len(index) if factor is None else factor
        return [Placed(self.rows, i, f) for i, f in zip(index, factors, strict=True)]

    def is_whole(self) -> bool:
        """Whether it has each number of its rows once."""
        count = _samples_of(self) * prod(self.size)
        return self.index.numel() == count and has_each_once(self.index)

    def order(self) -> Tensor:
        """Of a whole value: for each number of its rows, which of the value it is."""
        numbers = counting([self.index.numel()])
        if start_of(self.index) == 0:
            return numbers
        order = torch.empty_like(numbers)
        order[self.index.flatten()] = numbers
        return order


def _samples_of(placed: Placed) -> int:
    batch = placed.rows.meta["val"].shape[0]
    return batch if isinstance(batch, int) else SAMPLES


def batch_dim(placed: Placed) -> int | None:
    """The dimension over which samples follow each other; None if they are mixed."""
    samples, size = _samples_of(placed), prod(placed.size)
    if samples == 1:
        return 0
    index = placed.index
    owner = index.div(size, rounding_mode="floor")
    for dim, length in enumerate(index.shape):
        if length % samples or not length:
            continue
        shape = [1] * index.dim()
        shape[dim] = length
        want = torch.arange(length).div(length // samples, rounding_mode="floor").view(shape)
        if bool(((owner == want) | (index < 0)).all()):
            first, second = (
                index.narrow(dim, 0, length // samples),
                index.narrow(dim, length // samples, length // samples),
            )
            if bool(((second == first + size) | (second < 0) & (first < 0)).all()):
                return dim
    return None


def is_of_any_batch(placed: Placed, value: Tensor) -> bool:
    """Whether a value has the batch, whose size differs from call to call, where its indices have
    it: SAMPLES may be the size of another dimension, or where a slice ends."""
    differing = [dim for dim, size in enumerate(value.shape) if not isinstance(size, int)]
    dim = batch_dim(placed)
    return bool(differing) if dim is None else differing == [dim]


def row_of(placed: Placed) -> Tensor | None:
    """Of a value whose last dimension is whole rows, the rows; None if it is something else."""
    width = placed.size[1]
    index = placed.index
    if index.dim() < 2 or index.shape[-1] != width:
        return None
    if start_of(index) == 0:
        return counting(index.shape[:-1])
    first = index[..., :1]
    if bool((first % width != 0).any()) or bool((index != first + torch.arange(width)).any()):
        return None
    return first[..., 0].div(width, rounding_mode="floor")


def from_rows(rows: Node, places: Tensor) -> Placed:
    """The value of rows at some places."""
    width = int(rows.meta["val"].shape[2])
    if start_of(places) == 0:
        return Placed(rows, counting((*places.shape, width)))
    return Placed(rows, places[..., None] * width + torch.arange(width))


def concrete(editing: Editing, given: Any) -> Any:
    """Arguments with numbers instead of sizes, of as many samples as indices are computed for."""

    def number(value: Any) -> Any:
        if isinstance(value, Node):
            return number(value.meta["val"]) if value_of(value) is None else value
        if isinstance(value, torch.SymInt):
            expression = value.node.expr
            return int(expression.subs(dict.fromkeys(expression.free_symbols, SAMPLES)))
        if isinstance(value, list | tuple):
            return type(value)(map(number, value))
        return value

    return number(given)
