"""Products of queries with what a table has for their distance to each row of the sample."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.layout import Format
from delegates.op_list.matrix import Matrix, MatrixSource
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_heads, said_shape


@dataclass(eq=False, kw_only=True)
class RelativeScores(Op):
    READS: ClassVar = ("input",)
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 12
    MATRICES: ClassVar = {"matrix": ""}

    input: Rows
    matrix: Matrix

    def fields(self, places: Places) -> list[Field]:
        return [places.slot(self.input), places.slot(self.output), places.weight(self.matrix)]

    @property
    def label(self) -> str:
        return "relative_scores"


def match_relative_scores(node: Node, values: Values) -> RelativeScores | Refused:
    query, table = args_of(node)
    if not is_heads(query):
        return Refused(f"of {said_shape(query)}; it takes heads (1, seq_len, heads, head_dim)")
    if values.constants.name(table) is None:
        return Refused("its table is computed, not a constant")
    rows, columns = shape_of(table)
    return RelativeScores(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(query),
        matrix=Matrix((MatrixSource(table, None, Format.FLOAT32, rows, columns, 0),)),
    )


MATCHERS: Matchers = {"thimble::relative_scores": (match_relative_scores,)}
