"""Writes the op list of delegates/op_list/program.fbs."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from delegates.op_list.layout import Format
from delegates.op_list.low_rank import LowRank
from delegates.op_list.ops import KINDS, Cache, Field, Floats, Indices, Op, Side, State

# Of a program whose kinds all have been there from the first on: old runners read it.
_FIRST_VERSION = 6
_ORIGINAL_VERSION = 8  # the first with two rotary tables
_HEIGHTS_VERSION = 8  # the first by sample
_SHORTER_VERSION = 11  # the first whose samples may be shorter
_IDENTIFIER = b"THCP"
_Vectors = dict[bytes, int]  # of indices, where they are: each is written once


class CacheType(IntEnum):
    FLOAT16 = 0
    FLOAT32 = 1
    INT8 = 2


class Role(IntEnum):
    TOKENS = 0
    START_POS = 1
    ROWS = 2


@dataclass(frozen=True)
class Weight:
    key: str
    rows: int
    columns: int
    group_size: int
    format: Format


@dataclass(frozen=True)
class Value:
    role: Role
    slot: int = 0


@dataclass(frozen=True)
class Operation:
    """An op in the form in which it is written.

    Attributes:
        version: of the first program that had it.
        fields: what its kind's table holds, in the schema's order.
    """

    name: str
    kind: type[Op]
    version: int
    fields: Sequence[Field]
    debug_id: int
    prepare_debug_id: int


@dataclass(frozen=True)
class Program:
    """A program as it is written.

    Attributes:
        adapters: the name of each and the key of its numbers.
        original: the longest text that uses the first rows of rotary tables, which then have as
            many more; 0: tables are for texts of all lengths.
        heights: of a program by sample, of each slot.
        shorter: the numbers of inputs whose sample may have fewer rows.
    """

    slots: Sequence[int]
    weights: Sequence[Weight]
    floats: str
    caches: Sequence[Cache]
    cache_type: CacheType
    operations: Sequence[Operation]
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    adapters: Sequence[tuple[str, str]] = ()
    states: Sequence[State] = ()
    original: int = 0
    heights: Sequence[int] = ()
    shorter: Sequence[int] = ()


def write_program(program: Program) -> bytes:
    """The flatbuffer, with its identifier."""
    builder = flatbuffers.Builder(4096)
    weights = _vector(builder, [_weight(builder, item) for item in program.weights])
    caches = _vector(builder, [_cache(builder, item) for item in program.caches])
    known: _Vectors = {}
    operations = _vector(builder, [_operation(builder, x, known) for x in program.operations])
    inputs = _vector(builder, [_value(builder, item) for item in program.inputs])
    outputs = _vector(builder, [_value(builder, item) for item in program.outputs])
    adapters = 0
    if program.adapters:
        adapters = _vector(builder, [_adapter(builder, *item) for item in program.adapters])
    states = 0
    if program.states:
        states = _vector(builder, [_state(builder, item) for item in program.states])
    floats = builder.CreateString(program.floats)
    slots = _numbers(builder, program.slots)
    heights = _numbers(builder, program.heights) if program.heights else 0
    shorter = _numbers(builder, program.shorter) if program.shorter else 0
    builder.StartObject(14)
    versions = [item.version for item in program.operations]
    versions += [_ORIGINAL_VERSION] if program.original else []
    versions += [_HEIGHTS_VERSION] if program.heights else []
    versions += [_SHORTER_VERSION] if program.shorter else []
    version = max(versions, default=_FIRST_VERSION)
    builder.PrependUint32Slot(0, version, 0)
    builder.PrependUOffsetTRelativeSlot(1, slots, 0)
    builder.PrependUOffsetTRelativeSlot(2, weights, 0)
    builder.PrependUOffsetTRelativeSlot(3, floats, 0)
    builder.PrependUOffsetTRelativeSlot(4, caches, 0)
    builder.PrependUint8Slot(5, program.cache_type, 0)
    builder.PrependUOffsetTRelativeSlot(6, operations, 0)
    builder.PrependUOffsetTRelativeSlot(7, inputs, 0)
    builder.PrependUOffsetTRelativeSlot(8, outputs, 0)
    builder.PrependUOffsetTRelativeSlot(9, adapters, 0)
    builder.PrependUOffsetTRelativeSlot(10, states, 0)
    builder.PrependUint32Slot(11, program.original, 0)
    if program.heights:
        builder.PrependUOffsetTRelativeSlot(12, heights, 0)
    if program.shorter:
        builder.PrependUOffsetTRelativeSlot(13, shorter, 0)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _numbers(builder: flatbuffers.Builder, numbers: Sequence[int] | NDArray[Any]) -> int:
    return builder.CreateNumpyVector(np.asarray(numbers, np.uint32))


def _vector(builder: flatbuffers.Builder, tables: list[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return builder.EndVector()


def _weight(builder: flatbuffers.Builder, weight: Weight) -> int:
    key = builder.CreateString(weight.key)
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(0, key, 0)
    builder.PrependUint32Slot(1, weight.rows, 0)
    builder.PrependUint32Slot(2, weight.columns, 0)
    builder.PrependUint32Slot(3, weight.group_size, 0)
    builder.PrependUint8Slot(4, weight.format, 0)
    return builder.EndObject()


def _cache(builder: flatbuffers.Builder, cache: Cache) -> int:
    name = builder.CreateString(cache.name)
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUint32Slot(1, cache.num_key_value_heads, 0)
    builder.PrependUint32Slot(2, cache.head_dim, 0)
    builder.PrependUint32Slot(3, cache.max_context_len, 0)
    builder.PrependUint32Slot(4, cache.rows, 0)
    return builder.EndObject()


def _state(builder: flatbuffers.Builder, state: State) -> int:
    name = builder.CreateString(state.name)
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUint32Slot(1, state.rows, 0)
    builder.PrependUint32Slot(2, state.width, 0)
    return builder.EndObject()


def _adapter(builder: flatbuffers.Builder, name: str, key: str) -> int:
    strings = builder.CreateString(name), builder.CreateString(key)
    builder.StartObject(2)
    for place, string in enumerate(strings):
        builder.PrependUOffsetTRelativeSlot(place, string, 0)
    return builder.EndObject()


def _low_rank(builder: flatbuffers.Builder, table: LowRank) -> int:
    builder.StartObject(7)
    for place, number in enumerate((table.adapter, table.first_row, table.rows, table.rank)):
        builder.PrependUint32Slot(place, number, 0)
    builder.PrependUint64Slot(4, table.a, 0)
    builder.PrependUint64Slot(5, table.b, 0)
    builder.PrependFloat32Slot(6, table.scale, 0.0)
    return builder.EndObject()


def _value(builder: flatbuffers.Builder, value: Value) -> int:
    builder.StartObject(2)
    builder.PrependUint8Slot(0, value.role, 0)
    builder.PrependUint32Slot(1, value.slot, 0)
    return builder.EndObject()


def _operation(builder: flatbuffers.Builder, operation: Operation, known: _Vectors) -> int:
    # Each field's store function. Nested tables come first: only one table can be open at a time.
    stores = [_field(builder, value, known) for value in operation.fields]
    builder.StartObject(len(stores))
    for place, store in enumerate(stores):
        store(place)
    table = builder.EndObject()
    name = builder.CreateString(operation.name)
    builder.StartObject(5)  # a union takes two fields: its kind and its table
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUint8Slot(1, 1 + KINDS.index(operation.kind), 0)
    builder.PrependUOffsetTRelativeSlot(2, table, 0)
    builder.PrependUint32Slot(3, operation.debug_id, 0)
    builder.PrependUint32Slot(4, operation.prepare_debug_id, 0)
    return builder.EndObject()


def _field(builder: flatbuffers.Builder, value: Field, known: _Vectors) -> Callable[[int], None]:
    if isinstance(value, Floats):
        builder.StartObject(2)
        builder.PrependUint64Slot(0, value.offset, 0)
        builder.PrependUint32Slot(1, value.length, 0)
        table = builder.EndObject()
        return lambda place: builder.PrependUOffsetTRelativeSlot(place, table, 0)
    if isinstance(value, Side):
        builder.StartObject(7)
        for place, number in enumerate(astuple(value)):
            builder.PrependUint32Slot(place, number, 0)
        table = builder.EndObject()
        return lambda place: builder.PrependUOffsetTRelativeSlot(place, table, 0)
    if isinstance(value, Indices):
        numbers = value.numbers.numpy().view(np.uint32)
        data = numbers.tobytes()
        vector = known[data] = known.get(data) or _numbers(builder, numbers)
        return lambda place: builder.PrependUOffsetTRelativeSlot(place, vector, 0)
    if isinstance(value, bool):
        return lambda place: builder.PrependBoolSlot(place, value, False)
    if isinstance(value, IntEnum):
        return lambda place: builder.PrependUint8Slot(place, value, 0)
    if isinstance(value, int):
        return lambda place: builder.PrependUint32Slot(place, value, 0)
    if isinstance(value, float):
        return lambda place: builder.PrependFloat32Slot(place, value, 0.0)
    if value:
        tables = _vector(builder, [_low_rank(builder, item) for item in value])
        return lambda place: builder.PrependUOffsetTRelativeSlot(place, tables, 0)
    return lambda place: None
