"""The last row alone."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class SelectLast(Op):
    READS: ClassVar = ("input",)
    ONE_ROW: ClassVar = True

    input: Rows

    def fields(self, places: Places) -> list[Field]:
        return [places.slot(self.input), places.slot(self.output)]

    @property
    def label(self) -> str:
        return "select_last"


def match_select_last(node: Node, values: Values) -> SelectLast | Refused:
    rows, dim, index = args_of(node)
    if not is_rows(rows) or len(shape_of(rows)) != 3 or (dim, index) != (1, -1):
        place = f"[{index}] of dimension {dim} of {said_shape(rows)}"
        return Refused(f"{place}; it takes the last of rows of float32, (1, seq_len, width)")
    return SelectLast(output=values.rows(node), nodes=[node], input=values.rows(rows))


MATCHERS: Matchers = {"aten::select": (match_select_last,)}
