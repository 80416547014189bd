"""Reads the list of operators of delegates/cpu/program.fbs: what each reads, writes and keeps."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from flatbuffers import number_types
from flatbuffers.table import Table

_VERSION = 1
_CACHE_ITEM_BYTES = {0: 2, 1: 4, 2: 1}  # float16, float32, int8
_CACHE_NAMES = {0: "float16", 1: "float32", 2: "int8"}
_FLOAT_BYTES = 4


class _Kind(IntEnum):
    EMBEDDING = 1
    NORM = 2
    LINEAR = 3
    ATTENTION = 4
    ADD = 5
    SWIGLU = 6


@dataclass(frozen=True)
class Weight:
    """A packed matrix: the key of its data in the file, and how many bytes that has."""

    key: str
    rows: int
    columns: int
    size: int


@dataclass(frozen=True)
class Operator:
    """
    Attributes:
        name: module path.
        kind: such as linear.
        debug_ids: under which its time is recorded, that of the main part first.
        reads, writes: numbers of slots.
        weight: number of its weight; None without.
        cache_bytes: of its keys and values, at the full context and of the file's type.
    """

    name: str
    kind: str
    debug_ids: tuple[int, ...]
    reads: tuple[int, ...]
    writes: int
    weight: int | None
    cache_bytes: int


@dataclass(frozen=True)
class OpList:
    """
    Attributes:
        slots: bytes of each slot, of one token.
        one_row: slots that hold one row however many tokens run together.
        given: slots that the caller fills.
        cache_type: the type of keys and values, as float16, unless a session asks for another.
    """

    slots: tuple[int, ...]
    one_row: frozenset[int]
    given: tuple[int, ...]
    weights: tuple[Weight, ...]
    operators: tuple[Operator, ...]
    cache_type: str

    @property
    def weight_bytes(self) -> int:
        """Of all the packed weights, which lie in the file and are used there."""
        return sum({weight.key: weight.size for weight in self.weights}.values())

    @property
    def cache_bytes(self) -> int:
        return sum(operator.cache_bytes for operator in self.operators)

    def live(self) -> list[frozenset[int]]:
        """For each operator, the slots whose rows are read then or later, or written then."""
        live: list[frozenset[int]] = []
        needed: frozenset[int] = frozenset()
        for operator in reversed(self.operators):
            here = needed | {operator.writes, *operator.reads}
            live.append(here)
            needed = here - {operator.writes} | set(operator.reads)
        live.reverse()
        return live


def read_op_list(blob: bytes, sizes: Mapping[str, int]) -> OpList | None:
    """
    Args:
        sizes: bytes of the file's named data, by key.

    Returns:
        None where the list is of a version that this does not know.
    """
    root = Table(blob, struct.unpack_from("<I", blob)[0])
    if blob[4:8] != b"THCP" or _number(root, 0) != _VERSION:
        return None
    weights = [
        Weight(key := _string(item, 0), _number(item, 1), _number(item, 2), sizes.get(key, 0))
        for item in _tables(root, 2)
    ]
    cache_type = _byte(root, 5)
    caches = [
        2 * _number(item, 0) * _number(item, 1) * _number(item, 2) * _CACHE_ITEM_BYTES[cache_type]
        for item in _tables(root, 4)
    ]
    given = [_number(item, 1) for item in _tables(root, 7) if _byte(item, 0) == 2]
    one_row: set[int] = set()
    operators = [_operator(item, caches, one_row) for item in _tables(root, 6)]
    widths = _numbers(root, 1)
    return OpList(
        slots=tuple(width * _FLOAT_BYTES for width in widths),
        one_row=frozenset(one_row),
        given=tuple(given),
        weights=tuple(weights),
        operators=tuple(operators),
        cache_type=_CACHE_NAMES[cache_type],
    )


def _operator(op: Table, caches: list[int], one_row: set[int]) -> Operator:
    kind = _Kind(_byte(op, 1))
    fields = Table(op.Bytes, 0)
    op.Union(fields, op.Offset(4 + 2 * 2))
    weight, cache_bytes = None, 0
    if kind is _Kind.EMBEDDING:
        reads, writes, weight = [], _number(fields, 1), _number(fields, 0)
    elif kind is _Kind.ATTENTION:
        reads, writes = [_number(fields, place) for place in (0, 2, 4)], _number(fields, 6)
        cache_bytes = caches[_number(fields, 8)]
    elif kind is _Kind.SWIGLU:
        reads, writes = [_number(fields, 0), _number(fields, 1)], _number(fields, 2)
    else:
        reads, writes = [_number(fields, 0)], _number(fields, 1)
    adds = kind is _Kind.ADD
    if kind is _Kind.LINEAR:
        weight = _number(fields, 2)
        adds = bool(_byte(fields, 7))
        if _byte(fields, 8):
            one_row.add(writes)
    if adds:
        reads.append(writes)
    ids = dict.fromkeys((_number(op, 3), _number(op, 4)))
    return Operator(
        _string(op, 0),
        kind.name.lower(),
        tuple(ids),
        tuple(dict.fromkeys(reads)),
        writes,
        weight,
        cache_bytes,
    )


def _scalar(table: Table, field: int, kind: Any) -> int:
    return int(table.GetSlot(4 + 2 * field, 0, kind))


def _number(table: Table, field: int) -> int:
    return _scalar(table, field, number_types.Uint32Flags)


def _byte(table: Table, field: int) -> int:
    return _scalar(table, field, number_types.Uint8Flags)


def _string(table: Table, field: int) -> str:
    offset = table.Offset(4 + 2 * field)
    return table.String(table.Pos + offset).decode() if offset else ""


def _numbers(table: Table, field: int) -> list[int]:
    offset = table.Offset(4 + 2 * field)
    if not offset:
        return []
    start = table.Vector(offset)
    flags = number_types.Uint32Flags
    return [int(table.Get(flags, start + 4 * i)) for i in range(table.VectorLen(offset))]


def _tables(table: Table, field: int) -> list[Table]:
    offset = table.Offset(4 + 2 * field)
    if not offset:
        return []
    start = table.Vector(offset)
    return [
        Table(table.Bytes, table.Indirect(start + 4 * i)) for i in range(table.VectorLen(offset))
    ]
