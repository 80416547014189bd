"""Linears that read one input and are read together become one matrix."""

from collections.abc import Sequence

from delegates.op_list.matrix import Matrix
from delegates.op_list.op_list import OpList
from delegates.op_list.ops import (
    Attention,
    Elementwise,
    Function,
    Glu,
    Linear,
    Op,
    SegmentAttention,
)
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows


def gate(ops: OpList, op: Op) -> Refused | None:
    """A product whose one factor is an activation: a GLU."""
    if not isinstance(op, Elementwise) or op.function is not Function.MULTIPLY:
        return None
    if op.other is None or op.input is op.other or op.input.width != op.other.width:
        return None
    activations = [ops.maker(rows) for rows in op.reads()]
    for activation, up in zip(activations, (op.other, op.input), strict=True):
        if not isinstance(activation, Elementwise) or not activation.function.is_activation:
            continue
        if ops.only_reader(activation.output) is not op:
            return Refused(f"the {activation.label} of one factor is read by others too")
        ops.remove(activation)
        glu = Glu(
            output=op.output,
            nodes=[*activation.nodes, *op.nodes],
            gate=activation.input,
            up=up,
            activation=activation.function,
            name=op.name,
        )
        ops.replace(op, glu)
        return None
    return None


def join_query_key_value(ops: OpList, op: Op) -> Refused | None:
    """One matrix for the queries, keys and values of an attention, which reads its columns."""
    if not isinstance(op, Attention | SegmentAttention):
        return None
    linears = _alike(ops, op, (op.query, op.key, op.value), "query, key and value")
    if isinstance(linears, Refused):
        return linears
    joined = Rows(
        sum(linear.output.width for linear in linears),
        one_row=op.query.one_row,
        height=op.query.height,
    )
    offsets = [sum(item.output.width for item in linears[:count]) for count in range(3)]
    op.offsets = offsets[0], offsets[1], offsets[2]
    last = _join(ops, linears, "qkv_proj", interleaved=False)
    ops.rewrite(last, joined)
    for field in ("query", "key", "value"):
        ops.reread(op, field, joined)
    return None


def join_gate_and_up(ops: OpList, op: Op) -> Refused | None:
    """One matrix for both sides of a GLU, which the linear itself computes."""
    if not isinstance(op, Glu):
        return None
    linears = _alike(ops, op, op.reads(), "gate and up")
    if isinstance(linears, Refused):
        return linears
    last = _join(ops, linears, "gate_up_proj", interleaved=True)
    last.activation = op.activation
    last.nodes = [*last.nodes, *op.nodes]
    ops.remove(op)
    ops.rewrite(last, op.output)
    return None


def _alike(ops: OpList, reader: Op, read: Sequence[Rows], names: str) -> list[Linear] | Refused:
    """The linears whose outputs an op alone reads, where they can be one matrix."""
    makers = [ops.maker(rows) for rows in read]
    linears = [op for op in makers if isinstance(op, Linear)]
    if len(linears) < len(makers) or len(set(linears)) < len(makers):
        return Refused(f"{names} do not each come from a linear of their own")
    if any(ops.only_reader(linear.output) is not reader for linear in linears):
        return Refused(f"one of {names} is read by others too, so their linears are not one matrix")
    if not all(linear.reads_like(linears[0]) for linear in linears):
        return Refused(f"the linears of {names} read different inputs")
    first = linears[0].matrix.sources[0]
    if not all(linear.matrix.sources[0].is_stored_like(first) for linear in linears):
        return Refused(f"the weights of {names} are of different formats")
    return linears


def _join(ops: OpList, linears: Sequence[Linear], name: str, interleaved: bool) -> Linear:
    """The last of some linears, with the matrices of all."""
    last = max(linears, key=ops.in_order().index)
    last.nodes = [node for linear in linears for node in linear.nodes]
    last.prepare_nodes = [node for linear in linears for node in linear.prepare_nodes]
    last.biases = tuple(bias for linear in linears for bias in linear.biases)
    sources = tuple(source for linear in linears for source in linear.matrix.sources)
    last.pairs = tuple(some for linear in linears for some in linear.pairs)
    last.matrix = Matrix(sources, interleaved)
    last.name = f"{last.name.rpartition('.')[0]}.{name}"
    for linear in linears:
        if linear is not last:
            ops.remove(linear)
    return last
