"""Some neighbouring columns of rows."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class Columns(Op):
    """
    Attributes:
        first: the first of as many columns as the output has.
    """

    READS: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True

    input: Rows
    first: int

    def fields(self, places: Places) -> list[Field]:
        return [places.slot(self.input), places.slot(self.output), self.first]


def match_columns(node: Node, values: Values) -> Columns | Refused | None:
    rows, dim, first, *_ = (*args_of(node), 0, 0)
    if not isinstance(rows, Node) or dim not in (-1, len(shape_of(rows)) - 1):
        return None
    if not is_rows(rows) or not is_rows(node) or len(shape_of(rows)) == 4 or len(node.args) > 4:
        return Refused(f"of {said_shape(rows)}; it takes neighbouring columns of rows of float32")
    if not isinstance(first, int) or first < 0:
        return Refused(f"its first column, {first}, is not a number from 0 on")
    return Columns(output=values.rows(node), nodes=[node], input=values.rows(rows), first=first)


MATCHERS: Matchers = {"aten::slice": (match_columns,)}
