"""Attention of samples computes with integers where linears do."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Linear, Op, SegmentAttention

LEAST_KEYS = 128  # fewer are not worth the rounding


def attend_in_integers(ops: OpList, op: Op) -> None:
    """Rounds what attention multiplies: less than the rounding of linears changes results.

    Not in windows: a sound that arrives is read in steps, whose tiles of keys begin elsewhere than
    those of the whole.
    """
    if not isinstance(op, SegmentAttention) or op.bias is not None or op.window > 0:
        return
    if op.key.height >= LEAST_KEYS * op.parts:
        op.integers = any(isinstance(other, Linear) and not other.matrix.is_float for other in ops)
