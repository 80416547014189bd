"""Activations of what a linear computes, without a gate."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Elementwise, Linear, Op, SegmentAttention
from delegates.op_list.refused import Refused


def activate_in_linear(ops: OpList, op: Op) -> Refused | None:
    """An activation of a linear's output, which the linear applies while it is in a cache.

    Only in programs of whole texts: others stay such as old runners read.
    """
    if not isinstance(op, Elementwise) or not op.function.is_activation:
        return None
    if not any(isinstance(other, SegmentAttention) for other in ops):
        return None
    linear = ops.maker(op.input)
    if not isinstance(linear, Linear) or ops.only_reader(op.input) is not op:
        return Refused("what it reads does not come from a linear that nothing else reads")
    if linear.activation is not None or linear.residual is not None or linear.last_row:
        return Refused("its linear gates, adds, or computes one row")
    ops.remove(op)
    ops.rewrite(linear, op.output)
    linear.activation = op.function
    linear.nodes = [*linear.nodes, *op.nodes]
    return None
