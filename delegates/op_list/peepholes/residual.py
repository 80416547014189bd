"""Sums in the place of one operand: the residual stream."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Elementwise, Function, Linear, Op
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows


def add_in_linear(ops: OpList, op: Op) -> Refused | None:
    """A sum whose one operand a linear computes: the linear adds it to the other.

    It does so where it stands, and in that operand's slot. No reader of the operand may come later:
    nothing that lets an op read an older value may be merged after this.
    """
    if not isinstance(op, Elementwise) or op.function is not Function.ADD or op.other is None:
        return None
    if op.input is op.other:
        return Refused("it adds rows to themselves")
    changed = False
    for kept, added in ((op.input, op.other), (op.other, op.input)):
        linear = ops.maker(added)
        if not isinstance(linear, Linear):
            continue
        changed = True
        if _can_add(ops, op, linear, kept):
            ops.remove(op)
            ops.reread(linear, "residual", kept)
            ops.rewrite(linear, op.output)
            linear.nodes = [*linear.nodes, *op.nodes]
            return None
    if not changed:
        return Refused(
            "neither operand comes from a linear, which could add its output to the other"
        )
    return Refused(
        "the linear's output is read by others too, or the other operand is read again later"
    )


def _can_add(ops: OpList, add: Op, linear: Linear, kept: Rows) -> bool:
    if linear.residual is not None or linear.activation is not None or linear.last_row:
        return False
    if ops.only_reader(linear.output) is not add or linear.input is kept:
        return False
    maker = ops.maker(kept)
    if kept in ops.outputs or maker is not None and not ops.is_before(maker, linear):
        return False
    others = [reader for reader in ops.readers(kept) if reader is not add]
    return all(ops.is_before(reader, linear) for reader in others)
