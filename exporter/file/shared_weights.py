"""Weights that ExecuTorch's kernels and a delegate both read, such as a tied embedding and head.

ExecuTorch stores what its kernels read in one segment of constants, and what a delegate reads in
segments of its own: a weight of both is in the file twice. Here the delegate's becomes a range of
the constants.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flatbuffers.number_types import Uint32Flags, Uint64Flags
from flatbuffers.table import Table

from exporter.file.pte import HEADER

_DATA_SIZE = 32  # where the header's last number is
_SEGMENTS, _CONSTANTS, _NAMED = 4, 5, 7  # fields of a program
_LEAST = 4096  # bytes of a weight that is worth the work
_ALIGNMENT = 16  # of constants; our own delegate's weights have more
_MOST_ALIGNMENT = 1 << 16
_OWN = ("thimble.", "cpu/")
_CHUNK = 1 << 24


@dataclass
class _Segment:
    """
    Attributes:
        place: of the offset's number in the program; 0 if it has none.
        offset, size: bytes, from the first segment's begin.
    """

    place: int
    offset: int
    size: int


def share_weights(path: Path) -> int:
    """Stores such weights of a written program once; returns how many bytes that saves."""
    with open(path, "r+b") as file:
        head = HEADER.unpack(file.read(HEADER.size))
        program_size, base, data_size = head[3:]
        file.seek(0)
        program = bytearray(file.read(program_size))
        segments, shared = _read(program), set[int]()
        constants, named = _constants(program, segments), _named(program)
        for index in sorted(named):
            segment = segments[index]
            if not segment.place or segment.size < _LEAST:
                continue
            for offset, size in constants:
                near = segment.size <= size < segment.size + _ALIGNMENT
                if near and _are_equal(file, base, segment.offset, offset, segment.size):
                    segment.offset = offset
                    shared.add(index)
                    break
        if not shared:
            return 0
        kept = [one for index, one in enumerate(segments) if index not in shared]
        moved = _closed_up(file, base, kept)
        for index in shared:
            segments[index].offset = moved.offset_of(segments[index].offset)
        for segment in segments:
            if segment.place:
                struct.pack_into("<Q", program, segment.place, segment.offset)
        struct.pack_into("<Q", program, _DATA_SIZE, moved.end)
        file.seek(0)
        file.write(program)
        file.truncate(base + moved.end)
    return int(data_size - moved.end)


@dataclass(frozen=True)
class _Moved:
    """
    Attributes:
        ranges: (old offset, size, new offset) of what was kept.
        end: of it.
    """

    ranges: list[tuple[int, int, int]]
    end: int

    def offset_of(self, old: int) -> int:
        """Returns the new offset of a byte."""
        return next(new + old - at for at, size, new in self.ranges if at <= old < at + size)


def _closed_up(file: BinaryIO, base: int, kept: list[_Segment]) -> _Moved:
    """Moves segments to the front, aligned as they were."""
    ranges, end = [], 0
    for segment in sorted(kept, key=lambda one: one.offset):
        lowest = segment.offset & -segment.offset
        alignment = min(lowest or _MOST_ALIGNMENT, _MOST_ALIGNMENT)
        new = -(-end // alignment) * alignment
        for done in range(0, segment.size if new != segment.offset else 0, _CHUNK):
            file.seek(base + segment.offset + done)
            data = file.read(min(_CHUNK, segment.size - done))
            file.seek(base + new + done)
            file.write(data)
        ranges.append((segment.offset, segment.size, new))
        segment.offset, end = new, new + segment.size
    return _Moved(ranges, end)


def _are_equal(file: BinaryIO, base: int, one: int, other: int, size: int) -> bool:
    if one == other:
        return False
    return _digest(file, base + one, size) == _digest(file, base + other, size)


def _digest(file: BinaryIO, start: int, size: int) -> bytes:
    digest = hashlib.sha256()
    for done in range(0, size, _CHUNK):
        file.seek(start + done)
        digest.update(file.read(min(_CHUNK, size - done)))
    return digest.digest()


def _root(program: bytearray) -> Table:
    return Table(program, struct.unpack_from("<I", program)[0])


def _tables(table: Table, field: int) -> Iterator[Table]:
    offset = table.Offset(4 + 2 * field)
    start = table.Vector(offset) if offset else 0
    for index in range(table.VectorLen(offset) if offset else 0):
        yield Table(table.Bytes, table.Indirect(start + 4 * index))


def _read(program: bytearray) -> list[_Segment]:
    segments = []
    for table in _tables(_root(program), _SEGMENTS):
        offset = table.Offset(4)
        place = table.Pos + offset if offset else 0
        numbers = [table.GetSlot(slot, 0, Uint64Flags) for slot in (4, 6)]
        segments.append(_Segment(place, *numbers))
    return segments


def _constants(program: bytearray, segments: list[_Segment]) -> list[tuple[int, int]]:
    """Returns the offset and the size of each constant; sizes include what aligns the next."""
    root = _root(program)
    field = root.Offset(4 + 2 * _CONSTANTS)
    if not field:
        return []
    table = Table(root.Bytes, root.Indirect(root.Pos + field))
    offsets = table.Offset(6)
    count = table.VectorLen(offsets) if offsets else 0
    if not count:
        return []
    segment = segments[table.GetSlot(4, 0, Uint32Flags)]
    start = table.Vector(offsets)
    starts = [table.Get(Uint64Flags, start + 8 * index) for index in range(count)]
    ends = [*starts[1:], segment.size]
    return [(segment.offset + first, end - first) for first, end in zip(starts, ends, strict=True)]


def _named(program: bytearray) -> set[int]:
    """Returns the segments of blobs that another backend than ours reads."""
    found: set[int] = set()
    own: set[int] = set()
    for item in _tables(_root(program), _NAMED):
        key = item.String(item.Pos + item.Offset(4)).decode()
        index = item.GetSlot(6, 0, Uint32Flags)
        (own if key.startswith(_OWN) else found).add(index)
    return found - own
