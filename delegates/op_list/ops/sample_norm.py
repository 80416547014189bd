"""A norm of all numbers of a sample together: GroupNorm of one group."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class SampleNorm(Op):
    """
    Attributes:
        weight: None: all are 1.
        bias: None: there is none.
    """

    READS: ClassVar = ("input",)
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    IN_PLACE: ClassVar = ("input",)
    VERSION: ClassVar = 11

    input: Rows
    weight: Node | None
    bias: Node | None
    eps: float

    def fields(self, places: Places) -> list[Field]:
        numbers = (None if x is None else places.vector(x) for x in (self.weight, self.bias))
        return [places.slot(self.input), places.slot(self.output), *numbers, self.eps]

    @property
    def label(self) -> str:
        return "sample_norm"


def match_sample_norm(node: Node, values: Values) -> SampleNorm | Refused:
    x, weight, bias, eps = args_of(node)
    if not is_rows(x):
        return Refused(f"of {said_shape(x)}; it takes float32 of 2 to 4 dimensions")
    if any(item is not None and values.constants.name(item) is None for item in (weight, bias)):
        return Refused("its weight or bias is computed, not a constant")
    return SampleNorm(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(x),
        weight=weight,
        bias=bias,
        eps=eps,
    )


MATCHERS: Matchers = {"thimble::sample_norm": (match_sample_norm,)}
