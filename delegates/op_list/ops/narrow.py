"""Some rows of each sample."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.rows import Rows, is_rows


@dataclass(eq=False, kw_only=True)
class Narrow(Op):
    """
    Attributes:
        first: the first row of the input that it takes.
        step: from one to the next.
    """

    READS: ClassVar = ("input",)
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 8

    input: Rows
    first: int
    step: int

    def fields(self, places: Places) -> list[Field]:
        return [places.slot(self.input), places.slot(self.output), self.first, self.step]


def match_slice(node: Node, values: Values) -> Narrow | None:
    x, *given = args_of(node)
    defaults: list[Any] = [0, None, None, 1]
    dim, first, _, step = given + defaults[len(given) :]
    return _narrow(node, x, dim, first or 0, step, values)


def match_select(node: Node, values: Values) -> Narrow | None:
    x, dim, first = args_of(node)
    return _narrow(node, x, dim, first, 1, values)


def _narrow(
    node: Node, x: Node, dim: int, first: object, step: object, values: Values
) -> Narrow | None:
    whole = isinstance(first, int) and isinstance(step, int)
    if not values.by_sample or dim != 1 or not is_rows(x) or not is_rows(node) or not whole:
        return None
    assert isinstance(first, int) and isinstance(step, int)
    height = shape_of(x)[1]
    if len(shape_of(x)) < 3 or not isinstance(height, int):
        return None
    first = max(first + height, 0) if first < 0 else first
    return Narrow(
        output=values.rows(node), nodes=[node], input=values.rows(x), first=first, step=step
    )


MATCHERS: Matchers = {"aten::slice": (match_slice,), "aten::select": (match_select,)}
