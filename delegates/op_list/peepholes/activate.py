"""Activations of what a linear or a depthwise convolution computes, without a gate."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Depthwise, Elementwise, Linear, Op, SegmentAttention
from delegates.op_list.refused import Refused


def activate_in_place(ops: OpList, op: Op) -> Refused | None:
    """An activation of a linear's output, which the linear applies while it is in a cache.

    Only in programs of whole texts or samples: others stay such as old runners read.
    """
    if not isinstance(op, Elementwise) or not op.function.is_activation:
        return None
    if not op.output.height and not any(isinstance(other, SegmentAttention) for other in ops):
        return None
    maker = ops.maker(op.input)
    if not isinstance(maker, Linear | Depthwise) or ops.only_reader(op.input) is not op:
        return Refused("what it reads does not come from a linear that nothing else reads")
    if maker.activation is not None:
        return Refused("its linear gates, or has another activation")
    if isinstance(maker, Linear) and (maker.residual is not None or maker.last_row):
        return Refused("its linear adds, or computes one row")
    ops.remove(op)
    ops.rewrite(maker, op.output)
    maker.activation = op.function
    maker.nodes = [*maker.nodes, *op.nodes]
    return None
