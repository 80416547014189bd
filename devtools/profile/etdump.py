"""Reads an ETDump: what ExecuTorch's event tracer recorded, as it recorded it.

The file is a flatbuffer with its size in front (devtools/etdump/etdump_schema_flatcc.fbs of
ExecuTorch). Read here, and not through ExecuTorch, whose import takes seconds and whose reader
needs flatc.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

from devtools.errors import BadRequest

_IDENTIFIER = b"ED00"
_NO_ID = -1
# Numbers of fields in the schema's tables.
_DUMP_RUNS = 1
_RUN_NAME, _RUN_EVENTS = 0, 3
_EVENT_PROFILE = 0
_NAME, _CHAIN, _INSTRUCTION, _INT_ID, _STR_ID, _METADATA, _START, _END = range(8)


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded interval.

    Attributes:
        name: of what was recorded; empty for events inside delegates.
        chain: of the instruction; -1 outside of any.
        instruction_id: of the program; within one chain.
        delegate_debug_id: a number or a name; None where no delegate logged it.
        metadata: bytes that the delegate logged along.
        start, end: nanoseconds.
    """

    name: str
    chain: int
    instruction_id: int
    delegate_debug_id: int | str | None
    metadata: bytes
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Run:
    """A block of records: one execution, or the loading of the program."""

    name: str
    records: tuple[Record, ...]


def read_etdump(path: Path) -> list[Run]:
    """Every block of the file, in order.

    Raises:
        BadRequest: there is no such file, it is not an ETDump, or it is cut or damaged.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadRequest(
            f"{path} cannot be read ({error.strerror}); name the file that the runner's --etdump "
            "wrote."
        ) from error
    if len(data) < 12 or data[8:12] != _IDENTIFIER:
        raise BadRequest(
            f"{path} is not an ETDump; name the file that the runner's --etdump wrote."
        )
    (size,) = struct.unpack_from("<I", data)
    if size + 4 > len(data):
        raise BadRequest(
            f"{path} is cut: it holds {len(data)} of its {size + 4} bytes; copy it again, or "
            "record it again."
        )
    try:
        return _Buffer(data).runs()
    except (struct.error, UnicodeDecodeError, _Outside) as error:
        raise BadRequest(f"{path} is damaged; copy it again, or record it again.") from error


class _Outside(ValueError):
    """An offset that points out of the buffer, or a time before its own start."""


class _Buffer:
    """Tables of a flatbuffer, by position."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = len(data)  # items that may still be read: none is shared

    def runs(self) -> list[Run]:
        root = self._follow(4)
        return [
            Run(self._text(run, _RUN_NAME), tuple(self._records(run)))
            for run in self._vector(root, _DUMP_RUNS)
        ]

    def _records(self, run: int) -> list[Record]:
        records = []
        for event in self._vector(run, _RUN_EVENTS):
            at = self._field(event, _EVENT_PROFILE)
            if at:
                records.append(self._record(self._follow(at)))
        return records

    def _record(self, table: int) -> Record:
        number = self._number(table, _INT_ID, "<i", _NO_ID)
        start, end = (self._number(table, field, "<Q", 0) for field in (_START, _END))
        if end < start:
            raise _Outside
        return Record(
            self._text(table, _NAME),
            self._number(table, _CHAIN, "<i", 0),
            self._number(table, _INSTRUCTION, "<i", _NO_ID),
            number if number != _NO_ID else self._text(table, _STR_ID) or None,
            self._bytes(table, _METADATA),
            start,
            end,
        )

    def _take(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise _Outside
        return count

    def _read(self, form: str, at: int) -> int:
        if at < 0:
            raise _Outside
        value: int = struct.unpack_from(form, self._data, at)[0]
        return value

    def _follow(self, at: int) -> int:
        return at + self._read("<I", at)

    def _field(self, table: int, number: int) -> int:
        """Position of a field; 0 where it is absent."""
        vtable = table - self._read("<i", table)
        slot = 4 + 2 * number
        if slot >= self._read("<H", vtable):
            return 0
        offset = self._read("<H", vtable + slot)
        return table + offset if offset else 0

    def _number(self, table: int, number: int, form: str, default: int) -> int:
        at = self._field(table, number)
        return self._read(form, at) if at else default

    def _bytes(self, table: int, number: int) -> bytes:
        at = self._field(table, number)
        if not at:
            return b""
        start = self._follow(at)
        end = start + 4 + self._take(self._read("<I", start))
        if end > len(self._data):
            raise _Outside
        return self._data[start + 4 : end]

    def _text(self, table: int, number: int) -> str:
        return self._bytes(table, number).decode()

    def _vector(self, table: int, number: int) -> list[int]:
        """Positions of the tables of a vector."""
        at = self._field(table, number)
        if not at:
            return []
        start = self._follow(at)
        count = self._take(self._read("<I", start))
        if start + 4 + 4 * count > len(self._data):
            raise _Outside
        return [self._follow(start + 4 + 4 * i) for i in range(count)]
