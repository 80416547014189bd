"""Each column times a number, or plus one."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, operator_name, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.rows import Rows, is_rows


@dataclass(eq=False, kw_only=True)
class Affine(Op):
    """
    Attributes:
        weight: None: all are 1.
        bias: None: all are 0.
    """

    READS: ClassVar = ("input",)
    IN_PLACE: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 8

    input: Rows
    weight: Node | None = None
    bias: Node | None = None

    def fields(self, places: Places) -> list[Field]:
        numbers = (None if x is None else places.vector(x) for x in (self.weight, self.bias))
        return [places.slot(self.input), places.slot(self.output), *numbers]


def match_affine(node: Node, values: Values) -> Affine | None:
    for x, vector in (args_of(node)[:2], args_of(node)[1::-1]):
        if node.kwargs or not is_rows(x):
            continue
        if values.constants.name(vector) is None or shape_of(x) != shape_of(node):
            continue
        if len(shape_of(x)) == 4 or shape_of(vector) != shape_of(x)[-1:]:
            continue
        is_weight = operator_name(node) == "aten::mul"
        return Affine(
            output=values.rows(node),
            nodes=[node],
            input=values.rows(x),
            weight=vector if is_weight else None,
            bias=None if is_weight else vector,
        )
    return None


MATCHERS: Matchers = {"aten::mul": (match_affine,), "aten::add": (match_affine,)}
