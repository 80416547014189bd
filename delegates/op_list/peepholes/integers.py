"""Attention of samples computes with integers where linears do."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Linear, Op, SegmentAttention
from delegates.op_list.refused import Refused

LEAST_KEYS = 128  # fewer are not worth the rounding


def attend_in_integers(ops: OpList, op: Op) -> Refused | None:
    """Rounds what attention multiplies. This alone changes results, by less than linears' rounding."""
    if not isinstance(op, SegmentAttention) or op.key.height < LEAST_KEYS * op.parts:
        return None
    if op.bias is not None:
        return Refused("integers take no bias")
    op.integers = any(isinstance(other, Linear) and not other.matrix.is_float for other in ops)
    return None
