"""A sample's numbers in another order."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.ops.op import Field, Indices, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows


@dataclass(eq=False, kw_only=True)
class Gather(Op):
    """
    Attributes:
        piece: numbers that stay together.
        indices: of the input's pieces, for each of the output's; -1: zeros. While calls are
            chosen, it has no numbers, only a shape.
    """

    READS: ClassVar = ("input",)
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 9

    input: Rows
    piece: int
    indices: Tensor

    def fields(self, places: Places) -> list[Field]:
        slots = places.slot(self.input), places.slot(self.output)
        return [*slots, self.piece, Indices(self.indices)]


def match_gather(node: Node, values: Values) -> Gather | Refused:
    x, places, piece, _ = args_of(node)
    if values.constants.name(places) is None:
        return Refused("its places are computed, not a constant")
    return Gather(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(x),
        piece=piece,
        indices=values.constants.tensor(places),
    )


MATCHERS: Matchers = {"thimble::gather": (match_gather,)}
