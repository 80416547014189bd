"""The steps of a long short-term memory over the rows of each sample."""

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
class Lstm(Op):
    """
    Attributes:
        hidden, cell: rows of the first; both None: zeros.
        reverse: from the last row to the first.
    """

    READS: ClassVar = ("input", "hidden", "cell")
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 11
    MATRICES: ClassVar = {"matrix": ""}

    input: Rows
    matrix: Matrix
    hidden: Rows | None
    cell: Rows | None
    reverse: bool

    def fields(self, places: Places) -> list[Field]:
        state = (None if x is None else places.slot(x) for x in (self.hidden, self.cell))
        slots = places.slot(self.input), places.slot(self.output)
        return [*slots, places.weight(self.matrix), *state, self.hidden is not None, self.reverse]


def match_lstm(node: Node, values: Values) -> Lstm | Refused:
    gates, weight, hidden, cell, reverse = args_of(node)
    given = [x for x in (gates, hidden, cell) if x is not None]
    if not all(map(is_rows, given)):
        shapes = " and ".join(map(said_shape, given))
        return Refused(f"of {shapes}; it takes rows of float32 of each sample")
    if values.constants.name(weight) is None:
        return Refused("its weight is computed, not a constant")
    rows, columns = shape_of(weight)
    return Lstm(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(gates),
        matrix=Matrix((MatrixSource(weight, None, Format.FLOAT32, rows, columns, 0),)),
        hidden=None if hidden is None else values.rows(hidden),
        cell=None if cell is None else values.rows(cell),
        reverse=reverse,
    )


MATCHERS: Matchers = {"thimble::lstm": (match_lstm,)}
