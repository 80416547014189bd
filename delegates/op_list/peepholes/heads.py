"""Attention norms and rotates the heads that it reads itself, in the slots that hold them."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Attention, Norm, Op, Rotate, SharedAttention
from delegates.op_list.peepholes.readers import not_read_by
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows


def rotate_in_attention(ops: OpList, op: Op) -> Refused | None:
    """Both rotations, of queries and of keys, by the same tables."""
    if not isinstance(op, Rotate):
        return None
    attention = ops.only_reader(op.output)
    if isinstance(attention, SharedAttention):
        return _rotate_queries(ops, op, attention)
    if not isinstance(attention, Attention):
        return not_read_by(ops, op, "one attention alone", Attention)
    rotates = [ops.maker(rows) for rows in (attention.query, attention.key)]
    both = [item for item in rotates if isinstance(item, Rotate)]
    if op not in both or len({item.rotation for item in both}) > 1 or len(set(both)) < 2:
        return Refused("queries and keys are not both rotated, by the same tables")
    if any(ops.only_reader(item.output) is not attention for item in both):
        return Refused("its twin's output is read by others than the attention too")
    if any(ops.only_reader(item.input) is not item for item in both):
        return Refused("what it rotates is read by others too, and attention rotates it in place")
    if op.rotation.positions != attention.cache.max_context_len:
        return Refused("its tables have other positions than the cache")
    attention.rotation = op.rotation
    for field, item in zip(("query", "key"), both, strict=True):
        _take(ops, attention, field, item, item.input)
    return None


def _rotate_queries(ops: OpList, op: Rotate, attention: SharedAttention) -> Refused | None:
    if ops.only_reader(op.input) is not op:
        return Refused("what it rotates is read by others too, and attention rotates it in place")
    if op.rotation.positions != attention.positions:
        return Refused("its tables have other positions than the cache")
    attention.rotation = op.rotation
    _take(ops, attention, "query", op, op.input)
    return None


def norm_heads_in_attention(ops: OpList, op: Op) -> Refused | None:
    """The norm of the heads of queries or of keys."""
    if not isinstance(op, Norm) or not op.is_of_heads:
        return None
    attention = ops.only_reader(op.output)
    if not isinstance(attention, Attention | SharedAttention):
        return not_read_by(ops, op, "one attention alone", Attention)
    fields = [field for field in attention.READS if getattr(attention, field) is op.output]
    if fields not in (["query"], ["key"]):
        return Refused("attention norms queries and keys alone")
    if ops.only_reader(op.input) is not op:
        return Refused("what it norms is read by others too, and attention norms it in place")
    if isinstance(attention, SharedAttention):
        attention.query_norm = op.by_the_way
        _take(ops, attention, "query", op, op.input)
        return None
    norms = [norm for norm in (attention.query_norm, attention.key_norm) if norm is not None]
    if any(norm.eps != op.eps for norm in norms):
        return Refused("queries and keys are normed with different eps")
    if fields == ["query"]:
        attention.query_norm = op.by_the_way
    else:
        attention.key_norm = op.by_the_way
    _take(ops, attention, fields[0], op, op.input)
    return None


def _take(
    ops: OpList, attention: Attention | SharedAttention, field: str, op: Norm | Rotate, rows: Rows
) -> None:
    ops.reread(attention, field, rows)
    attention.prepare_nodes = [*op.nodes, *attention.prepare_nodes]
    ops.remove(op)
