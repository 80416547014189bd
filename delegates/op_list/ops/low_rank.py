"""What adapters add to a linear: two small products beside the large one (Hu et al., 2021)."""

from typing import Any

from torch.fx import Node

from delegates.op_list.graph import args_of, operator_name
from delegates.op_list.low_rank import Pair
from delegates.op_list.ops import linear
from delegates.op_list.ops.linear import Linear
from delegates.op_list.ops.op import Matchers, Values
from delegates.op_list.refused import Refused


def match_low_rank(node: Node, values: Values) -> Linear | Refused:
    """A linear with the products that are added to its output: one op."""
    output, x, a, b, scales, adapters = args_of(node)
    base = _linear(output, values)
    if isinstance(base, Refused):
        return base
    if base.input is not values.rows(x):
        return Refused("it reads other rows than the linear whose output it adds to")
    if any(values.constants.name(matrix) is None for matrix in (*a, *b)):
        return Refused("its matrices are computed, not constants")
    base.pairs = (tuple(map(Pair, adapters, a, b, scales)),)
    base.nodes = [*base.nodes, node]
    base.prepare_nodes = [*base.prepare_nodes, node]
    base.output = values.rows(node)
    return base


def _linear(node: Any, values: Values) -> Linear | Refused:
    matchers = linear.MATCHERS.get(operator_name(node), ()) if isinstance(node, Node) else ()
    for match in matchers:
        matched = match(node, values)
        if isinstance(matched, Linear | Refused):
            return matched
    return Refused("what it adds to does not come from a linear")


MATCHERS: Matchers = {"thimble::low_rank": (match_low_rank,)}
