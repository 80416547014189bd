"""Finds slots for values: those of one width that are never needed at one time share one (linear
scan). A slot's width is so that of every value in it."""

from collections.abc import Iterable
from dataclasses import dataclass

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Linear, Op
from delegates.op_list.rows import Rows


@dataclass(frozen=True)
class Slots:
    """
    Attributes:
        of: the slot of every value.
        widths: of each slot, in floats.
        heights: rows of each for every sample; 0 where a row is a token's.
    """

    of: dict[Rows, int]
    widths: list[int]
    heights: list[int]


def assign_slots(ops: OpList, inputs: Iterable[Rows]) -> Slots:
    """Finds a slot for every value.

    Inputs keep their slots from the start, outputs to the end. An op overwrites one of its operands
    if its kind allows it and nothing reads the operand later; otherwise it writes to a slot that
    none of its operands uses. A value of one row does not share its slot.
    """
    order = ops.in_order()
    first: dict[Rows, int] = {rows: -1 for rows in inputs}
    last: dict[Rows, int] = dict(first)
    makers: dict[Rows, Op] = {}
    for index, op in enumerate(order):
        for rows in op.reads():
            last[rows] = index
        first[op.output] = last[op.output] = index
        makers[op.output] = op
    for rows in ops.outputs:
        last[rows] = len(order)

    slots: dict[Rows, int] = {}
    sizes: list[tuple[int, int]] = []
    busy_until: list[int] = []  # the last op that needs what a slot holds
    for rows in first:
        overwritten = _overwritten(rows, makers.get(rows), first, last)
        if overwritten is not None:
            slot = slots[overwritten]
        else:
            free = (
                slot
                for slot, until in enumerate(busy_until)
                if until < first[rows] and sizes[slot] == rows.size and not rows.one_row
            )
            slot = next(free, len(sizes))
        if slot == len(sizes):
            sizes.append(rows.size)
            busy_until.append(0)
        slots[rows] = slot
        busy_until[slot] = len(order) + 1 if rows.one_row else last[rows]
    return Slots(slots, [width for width, _ in sizes], [height for _, height in sizes])


def _overwritten(
    rows: Rows, maker: Op | None, first: dict[Rows, int], last: dict[Rows, int]
) -> Rows | None:
    """Returns the operand that the op's output overwrites, if there is one."""
    if isinstance(maker, Linear) and maker.residual is not None:
        assert last[maker.residual] == first[rows], f"{maker.name} adds to what is read later"
        return maker.residual
    for operand in (getattr(maker, field) for field in maker.IN_PLACE) if maker else ():
        alike = operand is not None and operand.size == rows.size
        if alike and operand.one_row == rows.one_row and last[operand] == first[rows]:
            overwritten: Rows = operand
            return overwritten
    return None
