"""Convolutions that read windows where they are."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Linear, Op, Patches
from delegates.op_list.refused import Refused

PART_STEP = 4  # columns of a product in float32 that belong together


def multiply_windows(ops: OpList, op: Op) -> Refused | None:
    """Rows of windows that one linear multiplies in float32: it reads them from the picture."""
    if not isinstance(op, Patches):
        return None
    linear = ops.only_reader(op.output)
    if op.planar or op.input.width % PART_STEP:
        return Refused("its picture is not in rows of whole fours of channels")
    if not isinstance(linear, Linear) or linear.prepares or linear.gated or linear.last_row:
        return Refused("what it reads is not multiplied by one linear in float32 alone")
    ops.remove(op)
    ops.reread(linear, "input", op.input)
    linear.sides = op.sides
    linear.adopt(op.nodes)
    return None
