"""RMSNorm of rows, or of each head of a row: x * rsqrt(mean(x^2) + eps) * weight."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, operator_name, shape_of
from delegates.op_list.ops.op import Field, Floats, Matchers, Op, Places, Values
from delegates.op_list.rows import Rows, is_heads, is_rows


@dataclass(frozen=True)
class NormWeight:
    """A norm that another op applies to its input.

    Attributes:
        weight: None: all are 1.
        length: of the weight.
    """

    weight: Node | None
    length: int
    eps: float

    def place(self, places: Places) -> Floats:
        return places.ones(self.length) if self.weight is None else places.vector(self.weight)


@dataclass(eq=False, kw_only=True)
class Norm(Op):
    READS: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True
    IN_PLACE: ClassVar = ("input",)

    input: Rows
    num_heads: int
    weight: Node | None
    eps: float

    def fields(self, places: Places) -> list[Field]:
        weight = None if self.weight is None else places.vector(self.weight)
        slots = places.slot(self.input), places.slot(self.output)
        return [*slots, weight, self.eps, self.num_heads]

    @property
    def is_of_heads(self) -> bool:
        return is_heads(self.node)

    @property
    def by_the_way(self) -> NormWeight:
        """Returns this norm as a part of the op that reads its output."""
        return NormWeight(self.weight, self.input.width // self.num_heads, self.eps)


def match_norm(node: Node, values: Values) -> Norm | None:
    """Matches a norm with a weight."""
    for normed, weight in (args_of(node), args_of(node)[::-1]):
        if values.constants.name(weight) is None or shape_of(weight) != shape_of(node)[-1:]:
            continue
        if isinstance(normed, Node) and operator_name(normed) == "aten::mul":
            norm = match_plain_norm(normed, values)
            if norm is not None:
                nodes = [*norm.nodes, node]
                return _norm(node, nodes, norm.input, weight, norm.eps, values)
    return None


def match_plain_norm(node: Node, values: Values) -> Norm | None:
    """Matches a norm without a weight."""
    for x, factor in (args_of(node), args_of(node)[::-1]):
        factored = _match_factor(x, factor, values) if is_rows(x) else None
        if factored is not None:
            eps, nodes = factored
            return _norm(node, [*nodes, node], values.rows(x), None, eps, values)
    return None


def _norm(
    node: Node, nodes: list[Node], x: Rows, weight: Node | None, eps: float, values: Values
) -> Norm:
    heads = shape_of(node)[2] if is_heads(node) else 1
    return Norm(
        output=values.rows(node), nodes=nodes, input=x, num_heads=heads, weight=weight, eps=eps
    )


def _match_factor(x: Node, factor: Any, values: Values) -> tuple[float, list[Node]] | None:
    """Returns eps and the nodes of rsqrt(mean(x^2) + eps)."""
    if not isinstance(factor, Node) or operator_name(factor) != "aten::rsqrt":
        return None
    total = args_of(factor)[0]
    if operator_name(total) != "aten::add" or total.kwargs:
        return None
    mean, added = args_of(total)[:2]
    last = len(shape_of(x)) - 1
    if operator_name(mean) != "aten::mean" or args_of(mean)[1:] not in (
        ([-1], True),
        ([last], True),
    ):
        return None
    square = args_of(mean)[0]
    if operator_name(square) != "aten::pow" or args_of(square) != (x, 2):
        return None
    eps = values.constants.number(added)
    return None if eps is None else (eps[0], [square, mean, *eps[1], total, factor])


MATCHERS: Matchers = {"aten::mul": (match_norm, match_plain_norm)}
