"""The pattern of RMSNorm: x * rsqrt(mean(x^2) + eps) * weight."""

from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from delegates.cpu.graph import Constants, args_of, operator_name, shape_of


@dataclass(frozen=True)
class NormMatch:
    input: Node
    weight: Node
    eps: float
    nodes: list[Node]


def match_norm(node: Node, constants: Constants) -> NormMatch | None:
    """The norm over the last dimension that a node computes."""
    if operator_name(node) != "aten::mul":
        return None
    for normed, weight in (args_of(node), args_of(node)[::-1]):
        if constants.name(weight) is None or shape_of(weight) != shape_of(node)[-1:]:
            continue
        if not isinstance(normed, Node) or operator_name(normed) != "aten::mul":
            continue
        for x, factor in (args_of(normed), args_of(normed)[::-1]):
            match = _match_factor(x, factor, constants)
            if match is not None:
                eps, nodes = match
                return NormMatch(x, weight, eps, [*nodes, normed, node])
    return None


def _match_factor(x: Any, factor: Any, constants: Constants) -> tuple[float, list[Node]] | None:
    """eps and the nodes of rsqrt(mean(x^2) + eps)."""
    if not isinstance(factor, Node) or operator_name(factor) != "aten::rsqrt":
        return None
    total = args_of(factor)[0]
    if operator_name(total) != "aten::add" or total.kwargs:
        return None
    mean, added = args_of(total)[:2]
    if operator_name(mean) != "aten::mean" or args_of(mean)[1:] not in (([-1], True),):
        return None
    square = args_of(mean)[0]
    if operator_name(square) != "aten::pow" or args_of(square) != (x, 2):
        return None
    eps = _number(added, constants)
    return None if eps is None else (eps, [square, mean, total, factor])


def _number(value: Any, constants: Constants) -> float | None:
    if isinstance(value, float):
        return value
    if constants.name(value) is None or shape_of(value) != ():
        return None
    return float(constants.tensor(value))
