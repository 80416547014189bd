"""Finds slots for buffers: those of one width that are never needed at one time share one (linear
scan). A slot's width is so that of every value in it."""

from collections.abc import Iterable, Sequence

from delegates.cpu.operators import Buffer, Operator


def assign_slots(
    operators: Sequence[Operator], inputs: Iterable[Buffer], outputs: Iterable[Buffer]
) -> tuple[dict[Buffer, int], list[int]]:
    """A slot for every buffer, and the width of each slot in floats.

    Inputs are there from the start, outputs to the end; an operator's output never lies where one
    of its inputs does, unless it is that buffer. Buffers of one row keep a slot to themselves.
    """
    first: dict[Buffer, int] = {buffer: -1 for buffer in inputs}
    last: dict[Buffer, int] = dict(first)
    for index, operator in enumerate(operators):
        for buffer in (*operator.reads(), operator.output):
            first.setdefault(buffer, index)
            last[buffer] = index
    for buffer in outputs:
        last[buffer] = len(operators)

    slots: dict[Buffer, int] = {}
    widths: list[int] = []
    busy_until: list[int] = []  # the last operator that needs what a slot holds
    for buffer in sorted(first, key=lambda item: first[item]):
        free = (
            slot
            for slot, until in enumerate(busy_until)
            if until < first[buffer] and widths[slot] == buffer.width and not buffer.one_row
        )
        slot = next(free, len(widths))
        if slot == len(widths):
            widths.append(buffer.width)
            busy_until.append(0)
        slots[buffer] = slot
        busy_until[slot] = len(operators) + 1 if buffer.one_row else last[buffer]
    return slots, widths
