"""Writes the tables and vectors of a flatbuffer, without a schema's generated code."""

from collections.abc import Sequence
from dataclasses import dataclass

import flatbuffers


@dataclass(frozen=True)
class Number:
    """A scalar field, by the name of its type."""

    kind: str
    value: float
    default: float = 0


@dataclass(frozen=True)
class Flag:
    value: bool


Field = int | Number | Flag | None  # an int is the offset of a vector, a string or a table


def table(builder: flatbuffers.Builder, *fields: Field) -> int:
    """A table of these fields, in the schema's order; None is left out."""
    builder.StartObject(len(fields))
    for slot, value in enumerate(fields):
        if isinstance(value, Number):
            prepend = getattr(builder, f"Prepend{value.kind}Slot")
            prepend(slot, value.value, value.default)
        elif isinstance(value, Flag):
            builder.PrependBoolSlot(slot, value.value, False)
        elif value is not None:
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
    return int(builder.EndObject())


def tables(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    """A vector of tables or strings."""
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())
