"""Functions of one number or two, applied to rows number by number."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, kwargs_of, operator_name, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


class Function(IntEnum):
    """The functions of the schema; SILU to HARD_SWISH are activations."""

    ADD = 0
    MULTIPLY = 1
    SCALE = 2
    SOFT_CAP = 3
    SILU = 4
    GELU = 5
    GELU_TANH = 6
    SIGMOID = 7
    TANH = 8
    RELU = 9
    QUICK_GELU = 10
    RELU6 = 11
    HARD_SIGMOID = 12
    HARD_SWISH = 13
    LEAST = 14
    MOST = 15
    LEAKY_RELU = 16

    @property
    def is_activation(self) -> bool:
        return Function.SILU <= self <= Function.HARD_SWISH

    @property
    def version(self) -> int:
        """Of the first program that had it."""
        return 10 if self >= Function.RELU6 else 6


_ACTIVATIONS = {
    "aten::silu": Function.SILU,
    "aten::gelu": Function.GELU,
    "aten::sigmoid": Function.SIGMOID,
    "aten::tanh": Function.TANH,
    "aten::relu": Function.RELU,
}


@dataclass(eq=False, kw_only=True)
class Elementwise(Op):
    """
    Attributes:
        other: of ADD and MULTIPLY; of MULTIPLY it may have fewer columns, each of which multiplies
            an equal part of a row.
        number: of SCALE, SOFT_CAP, LEAST, MOST and LEAKY_RELU.
    """

    READS: ClassVar = ("input", "other")
    BY_SAMPLE: ClassVar = True
    IN_PLACE: ClassVar = ("input", "other")

    function: Function
    input: Rows
    other: Rows | None = None
    number: float = 0.0

    def fields(self, places: Places) -> list[Field]:
        other = None if self.other is None else places.slot(self.other)
        slots = places.slot(self.input), other, places.slot(self.output)
        return [self.function, *slots, self.number]

    @property
    def version(self) -> int:
        by_parts = self.other is not None and self.other.width != self.input.width
        return 7 if by_parts else self.function.version

    @property
    def label(self) -> str:
        return self.function.name.lower()


def match_activation(node: Node, values: Values) -> Elementwise | Refused:
    source = args_of(node)[0]
    if not is_rows(source):
        return _not_rows(node)
    function = _ACTIVATIONS[operator_name(node)]
    if kwargs_of(node).get("approximate") == "tanh":
        function = Function.GELU_TANH
    return Elementwise(
        output=values.rows(node), nodes=[node], function=function, input=values.rows(source)
    )


def match_pointwise(node: Node, values: Values) -> Elementwise | Refused:
    """A function by its name, with a number."""
    source, name, number = args_of(node)
    if not is_rows(source):
        return _not_rows(node)
    return Elementwise(
        output=values.rows(node),
        nodes=[node],
        function=Function[name.upper()],
        input=values.rows(source),
        number=float(number),
    )


def match_binary(node: Node, values: Values) -> Elementwise | Refused:
    """The sum or the product of two rows of one shape."""
    left, right = args_of(node)[:2]
    if node.kwargs or not is_rows(left) or not is_rows(right) or shape_of(left) != shape_of(right):
        return _not_rows(node)
    function = Function.ADD if operator_name(node) == "aten::add" else Function.MULTIPLY
    rows = values.rows(left), values.rows(right)
    output = values.rows(node)
    return Elementwise(output=output, nodes=[node], function=function, input=rows[0], other=rows[1])


_LEAST_DIVISOR = 2.0**-126  # of those that have an inverse in float32


def match_parts(node: Node, values: Values) -> Elementwise | None:
    """Rows, or heads, times a number for each of them."""
    for left, right in (args_of(node)[:2], args_of(node)[1::-1]):
        if not is_rows(left) or not is_rows(right) or node.kwargs:
            continue
        if shape_of(right) == (*shape_of(left)[:-1], 1):
            return Elementwise(
                output=values.rows(node),
                nodes=[node],
                function=Function.MULTIPLY,
                input=values.rows(left),
                other=values.rows(right),
            )
    return None


def match_scale(node: Node, values: Values) -> Elementwise | Refused | None:
    """Rows times a number, or divided by one."""
    parts = scaled(node, values)
    if parts is None:
        return _not_rows(node) if operator_name(node) == "aten::div" else None
    source, number, nodes = parts
    return Elementwise(
        output=values.rows(node),
        nodes=nodes,
        function=Function.SCALE,
        input=values.rows(source),
        number=number,
    )


def match_soft_cap(node: Node, values: Values) -> Elementwise | None:
    """number * tanh(rows / number); instead of the division, there may be a product with the
    inverse."""
    outer = scaled(node, values)
    if outer is None or operator_name(outer[0]) != "aten::tanh":
        return None
    capped = args_of(outer[0])[0]
    inner = scaled(capped, values)
    if inner is None or abs(inner[1] * outer[1] - 1) > 1e-6:
        return None
    return Elementwise(
        output=values.rows(node),
        nodes=[*inner[2], outer[0], *outer[2]],
        function=Function.SOFT_CAP,
        input=values.rows(inner[0]),
        number=outer[1],
    )


def scaled(node: Any, values: Values) -> tuple[Node, float, list[Node]] | None:
    """Returns the rows, the number by which a node multiplies them, and the nodes that do it."""
    name = operator_name(node) if isinstance(node, Node) else ""
    if name not in ("aten::mul", "aten::div") or node.kwargs:
        return None
    for source, factor in (args_of(node), args_of(node)[::-1]):
        constant = values.constants.number(factor) if is_rows(source) else None
        if constant is not None:
            number, makers = constant
            if name == "aten::div":
                number = 1 / number if abs(number) >= _LEAST_DIVISOR else math.inf
            return (source, number, [*makers, node]) if math.isfinite(number) else None
        if name == "aten::div":
            break  # a number divided by rows
    return None


def _not_rows(node: Node) -> Refused:
    shapes = " and ".join(said_shape(item) for item in node.all_input_nodes)
    return Refused(f"of {shapes}; it takes rows of float32, (1, seq_len, width), of one shape")


MATCHERS: Matchers = {
    "aten::add": (match_binary,),
    "aten::mul": (match_soft_cap, match_scale, match_parts, match_binary),
    "aten::div": (match_scale,),
    "thimble::pointwise": (match_pointwise,),
    **dict.fromkeys(_ACTIVATIONS, (match_activation,)),
}
