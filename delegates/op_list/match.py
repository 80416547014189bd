"""Finds the ops of a graph: each pattern is identified by its last node."""

from dataclasses import dataclass, field

from torch.fx import Graph, Node

from delegates.op_list.graph import CACHED, SHARED_ATTENTION, args_of, operator_name
from delegates.op_list.ops import Op, Values, matchers
from delegates.op_list.refused import Refused

_MATCHERS = matchers()
_OTHER_ROWS = Refused("it takes the rows of one sequence, or of samples of one fixed shape")
_READ_ELSEWHERE = Refused("its intermediate results are read elsewhere as well")


@dataclass
class Found:
    """
    Attributes:
        ops: in the order of the graph; no two cover the same node, and nothing else reads an op's
            intermediate results.
        refused: why no op covers a node, if a matcher gave a reason.
    """

    ops: list[Op] = field(default_factory=list)
    refused: dict[Node, Refused] = field(default_factory=dict)


def find_ops(graph: Graph, values: Values) -> Found:
    """Returns the ops of a graph before any of them is merged with others."""
    result = Found()
    covered: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in covered:
            continue
        op = _match(node, values, covered)
        if isinstance(op, Op):
            result.ops.append(op)
            covered.update(op.nodes)
        elif op is not None:
            result.refused[node] = op
    result.ops.reverse()
    return result


def _match(node: Node, values: Values, covered: set[Node]) -> Op | Refused | None:
    """Returns the op of the widest pattern that matches, else why the narrowest does not."""
    refused = None
    for matcher in _MATCHERS.get(operator_name(node), ()):
        result = matcher(node, values)
        if isinstance(result, Op) and not values.fits(result):
            result = _OTHER_ROWS
        if isinstance(result, Op):
            if covered.isdisjoint(result.nodes) and _is_closed(result):
                return result
            result = _READ_ELSEWHERE
        refused = result or refused
    return refused


def _is_closed(op: Op) -> bool:
    inside = set(op.nodes)
    return all(
        user in inside or (_is_mutation(node) and _reads_mutation(user))
        for node in op.nodes
        if node is not op.node
        for user in node.users
    )


def _reads_mutation(user: Node) -> bool:
    return user.op == "output" or operator_name(user) == SHARED_ATTENTION


def _is_mutation(node: Node) -> bool:
    """Whether a node is what an operator keeps, and has updated."""
    if operator_name(node) != "getitem":
        return False
    return operator_name(node.all_input_nodes[0]) in CACHED and args_of(node)[1] != 0
