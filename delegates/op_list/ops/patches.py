"""What a convolution multiplies by its weight: a row for each window over a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of
from delegates.op_list.operators import sides, windows
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Side, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class Patches(Op):
    """
    Attributes:
        planar: whether what it reads has a row for each channel; else one for each number of a
            picture.
        sides: vertical and horizontal.
    """

    READS: ClassVar = ("input",)
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 8

    input: Rows
    planar: bool
    sides: tuple[Side, Side]

    def fields(self, places: Places) -> list[Field]:
        return [places.slot(self.input), places.slot(self.output), self.planar, *self.sides]


def match_patches(node: Node, values: Values) -> Patches | Refused:
    x, planar, *numbers = args_of(node)
    if not is_rows(x):
        return Refused(f"of {said_shape(x)}; it takes float32 of 2 to 4 dimensions")
    rows = values.rows(x)
    sides = sides_of(numbers)
    return Patches(output=values.rows(node), nodes=[node], input=rows, planar=planar, sides=sides)


def sides_of(numbers: Sequence[Sequence[int]]) -> tuple[Side, Side]:
    """
    Args:
        numbers: sizes, kernel, stride, padding, dilation, as operators have them.
    """
    vertical, horizontal = (_side(*side) for side in sides(*numbers))
    return vertical, horizontal


def _side(size: int, kernel: int, stride: int, padding: Sequence[int], dilation: int) -> Side:
    output = windows(size, kernel, stride, padding, dilation)
    return Side(size, kernel, stride, padding[0], dilation, output, padding[1])


MATCHERS: Matchers = {"thimble::patches": (match_patches,)}
