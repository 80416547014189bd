"""The steps of a recurrent layer over the rows of each sample."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.layout import Format
from delegates.op_list.matrix import Matrix, MatrixSource
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


class Cell(IntEnum):
    """What a step computes: the schema's enum of that name."""

    LSTM = 0
    GRU = 1
    RNN_TANH = 2
    RNN_RELU = 3


@dataclass(eq=False, kw_only=True)
class Recurrent(Op):
    """
    Attributes:
        hidden, memory: rows of the first; None: zeros. Only an LSTM has a memory.
        reverse: from the last row to the first.
        bias: of what the hidden numbers add to the gates; None: there is none.
    """

    READS: ClassVar = ("input", "hidden", "memory")
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 11
    MATRICES: ClassVar = {"matrix": ""}

    input: Rows
    matrix: Matrix
    hidden: Rows | None
    memory: Rows | None
    reverse: bool
    bias: Node | None
    cell: Cell

    def fields(self, places: Places) -> list[Field]:
        state = (None if x is None else places.slot(x) for x in (self.hidden, self.memory))
        slots = places.slot(self.input), places.slot(self.output)
        bias = None if self.bias is None else places.vector(self.bias)
        known = [*slots, places.weight(self.matrix), *state, self.hidden is not None, self.reverse]
        return [*known, bias, self.cell]

    @property
    def version(self) -> int:
        return self.VERSION if self.cell is Cell.LSTM else 13


def match_recurrent(node: Node, values: Values) -> Recurrent | Refused:
    gates, weight, bias, hidden, memory, cell, reverse = args_of(node)
    given = [x for x in (gates, hidden, memory) if x is not None]
    if not all(map(is_rows, given)):
        shapes = " and ".join(map(said_shape, given))
        return Refused(f"of {shapes}; it takes rows of float32 of each sample")
    if any(x is not None and values.constants.name(x) is None for x in (weight, bias)):
        return Refused("its weight or bias is computed, not a constant")
    rows, columns = shape_of(weight)
    return Recurrent(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(gates),
        matrix=Matrix((MatrixSource(weight, None, Format.FLOAT32, rows, columns, 0),)),
        hidden=None if hidden is None else values.rows(hidden),
        memory=None if memory is None else values.rows(memory),
        reverse=reverse,
        bias=bias,
        cell=Cell[cell.upper()],
    )


MATCHERS: Matchers = {"thimble::recurrent": (match_recurrent,)}
