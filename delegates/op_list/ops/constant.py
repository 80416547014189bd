"""The same rows for each sample."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.layout import Format
from delegates.op_list.matrix import Matrix, MatrixSource
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused


@dataclass(eq=False, kw_only=True)
class Constant(Op):
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 8
    MATRICES: ClassVar[Mapping[str, str]] = {"matrix": ""}

    matrix: Matrix

    def fields(self, places: Places) -> list[Field]:
        return [places.weight(self.matrix), places.slot(self.output)]


def match_constant(node: Node, values: Values) -> Constant | Refused:
    table, _ = args_of(node)
    if values.constants.name(table) is None:
        return Refused("its table is computed, not a constant")
    rows, columns = shape_of(table)
    matrix = Matrix((MatrixSource(table, None, Format.FLOAT32, rows, columns, 0),))
    return Constant(output=values.rows(node), nodes=[node], matrix=matrix)


MATCHERS: Matchers = {"thimble::constant": (match_constant,)}
