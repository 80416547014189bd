"""Rows plus the row of a learned table for the position of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.layout import Format
from delegates.op_list.matrix import Matrix, MatrixSource
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class Positions(Op):
    READS: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True
    IN_PLACE: ClassVar = ("input",)
    VERSION: ClassVar = 7
    MATRICES: ClassVar[Mapping[str, str]] = {"matrix": ""}

    input: Rows
    matrix: Matrix

    def fields(self, places: Places) -> list[Field]:
        return [places.slot(self.input), places.weight(self.matrix), places.slot(self.output)]


def match_positions(node: Node, values: Values) -> Positions | Refused:
    x, table = args_of(node)
    if not is_rows(x) or len(shape_of(x)) != 3:
        return Refused(f"of {said_shape(x)}; it takes rows of float32, (1, seq_len, width)")
    if values.constants.name(table) is None:
        return Refused("its table is computed, not a constant")
    return _positions(node, x, table, values)


def match_added_table(node: Node, values: Values) -> Positions | None:
    """A constant with a row for each of a sample's."""
    for x, table in (args_of(node)[:2], args_of(node)[1::-1]):
        if not values.by_sample or node.kwargs or not is_rows(x) or len(shape_of(x)) != 3:
            continue
        if values.constants.name(table) is not None and shape_of(table) in (
            shape_of(x)[1:],
            (1, *shape_of(x)[1:]),
        ):
            return _positions(node, x, table, values)
    return None


def _positions(node: Node, x: Node, table: Node, values: Values) -> Positions:
    rows, columns = shape_of(table)[-2:]
    return Positions(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(x),
        matrix=Matrix((MatrixSource(table, None, Format.FLOAT32, rows, columns, 0),)),
    )


MATCHERS: Matchers = {
    "thimble::add_positions": (match_positions,),
    "aten::add": (match_added_table,),
}
