"""xIELU, an activation with three learned numbers."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, operator_name
from delegates.op_list.ops.elementwise import scaled
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.rows import Rows, is_rows


@dataclass(eq=False, kw_only=True)
class Xielu(Op):
    """alpha_p * x^2 + beta * x, or alpha_n * (exp(x) - 1 - x) + beta * x of x <= 0."""

    READS: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True
    IN_PLACE: ClassVar = ("input",)
    VERSION: ClassVar = 7

    input: Rows
    alpha_p: float
    alpha_n: float
    beta: float

    def fields(self, places: Places) -> list[Field]:
        slots = places.slot(self.input), places.slot(self.output)
        return [*slots, self.alpha_p, self.alpha_n, self.beta]


def match_xielu(node: Node, values: Values) -> Xielu | None:
    """With p = relu(x) and n = relu(-x):
    p * p * alpha_p + (expm1(-n) + n) * alpha_n + x * beta."""
    curved, straight = args_of(node)[:2]
    linear = scaled(straight, values)
    if linear is None or operator_name(curved) != "aten::add":
        return None
    above, below = (scaled(part, values) for part in args_of(curved)[:2])
    if above is None or below is None:
        return None
    x, square, grown = linear[0], above[0], below[0]
    if operator_name(square) != "aten::mul" or operator_name(grown) != "aten::add":
        return None
    positive, again = args_of(square)[:2]
    power, size = args_of(grown)[:2]
    mirrored = _negative_of(size, values, "aten::relu")
    exponent = _negative_of(power, values, "aten::expm1")
    if not is_rows(x) or mirrored is None or exponent is None:
        return None
    if operator_name(positive) != "aten::relu" or again is not positive:
        return None
    if args_of(positive)[0] is not x or mirrored[0] is not x or exponent[0] is not size:
        return None
    parts = above[2], below[2], linear[2], mirrored[1], exponent[1]
    nodes = [*(one for part in parts for one in part), positive, square, grown, curved, node]
    return Xielu(
        output=values.rows(node),
        nodes=nodes,
        input=values.rows(x),
        alpha_p=above[1],
        alpha_n=below[1],
        beta=linear[1],
    )


def _negative_of(node: Node, values: Values, function: str) -> tuple[Node, list[Node]] | None:
    """Returns what a function is given the negative of, and the nodes that do it."""
    if operator_name(node) != function:
        return None
    multiple = scaled(args_of(node)[0], values)
    return None if multiple is None or multiple[1] != -1 else (multiple[0], [*multiple[2], node])


MATCHERS: Matchers = {"aten::add": (match_xielu,)}
