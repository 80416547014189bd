"""What is done to the input of linears by the linears themselves, and once for several of them."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Linear, Norm, Op, SelectLast
from delegates.op_list.peepholes.readers import not_read_by
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows


def norm_in_linears(ops: OpList, op: Op) -> Refused | None:
    """A norm that linears alone read."""
    if not isinstance(op, Norm) or op.is_of_heads:
        return None
    linears = _linears(ops, op)
    if isinstance(linears, Refused):
        return linears
    for linear in linears:
        linear.norm = op.by_the_way
    _hand_over(ops, op, op.input, linears)
    return None


def select_last_in_linears(ops: OpList, op: Op) -> Refused | None:
    """A last row that linears alone read."""
    if not isinstance(op, SelectLast):
        return None
    linears = _linears(ops, op)
    if isinstance(linears, Refused):
        return linears
    for linear in linears:
        linear.last_row = True
    _hand_over(ops, op, op.input, linears)
    return None


def prepare_once(ops: OpList, op: Op) -> Refused | None:
    """A linear that quantizes what the one before has quantized; the first answers for all."""
    if not isinstance(op, Linear):
        return None
    order = ops.in_order()
    before = order[order.index(op) - 1] if op is not order[0] else None
    if not isinstance(before, Linear) or not op.is_prepared_by(before):
        return None
    op.prepared = True
    first = _first_of_prepared(order, before)
    first.prepare_nodes = [*first.prepare_nodes, *op.prepare_nodes]
    op.prepare_nodes = []
    return None


def _first_of_prepared(order: list[Op], linear: Linear) -> Linear:
    """The linear that prepared what another found prepared; itself where it did."""
    at = order.index(linear)
    while linear.prepared:
        at -= 1
        before = order[at]
        assert isinstance(before, Linear)
        linear = before
    return linear


def _linears(ops: OpList, op: Op) -> list[Linear] | Refused:
    """What reads an op's output, where that is linears alone."""
    readers = ops.readers(op.output)
    linears = [item for item in readers if isinstance(item, Linear)]
    if op.output in ops.outputs or not readers or len(linears) < len(readers):
        return not_read_by(ops, op, "linears alone", Linear)
    return linears


def _hand_over(ops: OpList, op: Op, rows: Rows, linears: list[Linear]) -> None:
    """Lets linears read what an op reads; the first of them answers for the op."""
    for linear in linears:
        ops.reread(linear, "input", rows)
    first = linears[0]
    if first.prepares:
        first.prepare_nodes = [*op.nodes, *first.prepare_nodes]
    else:
        first.nodes = [*op.nodes, *first.nodes]
    ops.remove(op)
