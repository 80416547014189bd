"""A convolution of each channel by itself."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.ops.elementwise import Function
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Side, Values
from delegates.op_list.ops.patches import sides_of
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class Depthwise(Op):
    """
    Attributes:
        weight: (kernel numbers * channels,).
        bias: (channels,); None: there is none.
        activation: of its output; None: there is none.
        sides: vertical and horizontal.
    """

    READS: ClassVar = ("input",)
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 10

    input: Rows
    weight: Node
    bias: Node | None
    sides: tuple[Side, Side]
    activation: Function | None = None

    def fields(self, places: Places) -> list[Field]:
        slots = places.slot(self.input), places.slot(self.output)
        bias = None if self.bias is None else places.vector(self.bias)
        return [*slots, places.vector(self.weight), bias, self.activation, *self.sides]


def match_depthwise(node: Node, values: Values) -> Depthwise | Refused:
    x, weight, bias, *numbers = args_of(node)
    if not is_rows(x):
        return Refused(f"of {said_shape(x)}; it takes float32 of 2 to 4 dimensions")
    if any(part is not None and values.constants.name(part) is None for part in (weight, bias)):
        return Refused("its weight is computed, not a constant")
    return Depthwise(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(x),
        weight=weight,
        bias=bias,
        sides=sides_of(numbers),
    )


MATCHERS: Matchers = {"thimble::depthwise": (match_depthwise,)}
