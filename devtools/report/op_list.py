"""Reads the list of operators of delegates/cpu/program.fbs: what each reads, writes and keeps."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from devtools.report.flatbuffer import Damaged, Table

_VERSION = 1
_IDENTIFIER = b"THCP"
_ROWS = 2  # of the enum Role
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

    Raises:
        Damaged: it is no whole list.
    """
    root = Table.root(blob)
    if blob[4:8] != _IDENTIFIER:
        raise Damaged
    if root.number(0) != _VERSION:
        return None
    weights = [
        Weight(key := item.text(0), item.number(1), item.number(2), sizes.get(key, 0))
        for item in root.tables(2)
    ]
    cache_type = root.number(5, "<B")
    caches = [
        2 * item.number(0) * item.number(1) * item.number(2) * _CACHE_ITEM_BYTES[cache_type]
        for item in root.tables(4)
    ]
    one_row: set[int] = set()
    operators = [_operator(item, caches, one_row) for item in root.tables(6)]
    return OpList(
        slots=tuple(width * _FLOAT_BYTES for width in root.numbers(1)),
        one_row=frozenset(one_row),
        given=tuple(item.number(1) for item in root.tables(7) if item.number(0, "<B") == _ROWS),
        weights=tuple(weights),
        operators=tuple(operators),
        cache_type=_CACHE_NAMES[cache_type],
    )


def _operator(op: Table, caches: list[int], one_row: set[int]) -> Operator:
    try:
        kind = _Kind(op.number(1, "<B"))
    except ValueError:
        raise Damaged from None
    fields = op.table(2)
    if fields is None:
        raise Damaged
    weight, cache_bytes = None, 0
    if kind is _Kind.EMBEDDING:
        reads, writes, weight = [], fields.number(1), fields.number(0)
    elif kind is _Kind.ATTENTION:
        reads, writes = [fields.number(place) for place in (0, 2, 4)], fields.number(6)
        cache_bytes = caches[fields.number(8)]
    elif kind is _Kind.SWIGLU:
        reads, writes = [fields.number(0), fields.number(1)], fields.number(2)
    else:
        reads, writes = [fields.number(0)], fields.number(1)
    adds = kind is _Kind.ADD
    if kind is _Kind.LINEAR:
        weight = fields.number(2)
        adds = bool(fields.number(7, "<B"))
        if fields.number(8, "<B"):
            one_row.add(writes)
    if adds:
        reads.append(writes)
    return Operator(
        op.text(0),
        kind.name.lower(),
        tuple(dict.fromkeys((op.number(3), op.number(4)))),
        tuple(dict.fromkeys(reads)),
        writes,
        weight,
        cache_bytes,
    )
