"""The mean, or the largest numbers, of some rows of a sample."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.ops.op import Field, Indices, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows


@dataclass(eq=False, kw_only=True)
class PoolRows(Op):
    """
    Attributes:
        count: rows for each of the output's.
        largest: whether it takes the largest number of each column; else the mean.
        indices: of the input's rows; while calls are chosen, only a shape.
    """

    READS: ClassVar = ("input",)
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 9

    input: Rows
    count: int
    largest: bool
    indices: Tensor

    def fields(self, places: Places) -> list[Field]:
        slots = places.slot(self.input), places.slot(self.output)
        return [*slots, self.count, self.largest, Indices(self.indices)]

    @property
    def label(self) -> str:
        return "pool_rows"


def match_pool_rows(node: Node, values: Values) -> PoolRows | Refused:
    x, places, count, largest = args_of(node)
    if values.constants.name(places) is None:
        return Refused("its places are computed, not a constant")
    return PoolRows(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(x),
        count=count,
        largest=largest,
        indices=values.constants.tensor(places),
    )


MATCHERS: Matchers = {"thimble::pool_rows": (match_pool_rows,)}
