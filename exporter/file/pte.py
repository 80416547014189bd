"""Our parts of a `.pte`: named blobs inside it, and the integrity record at its end.

ExecuTorch writes the program; our blobs are its named data. The integrity record
(schemas/integrity.fbs) follows its last byte; a stock runtime does not read it.
"""

import json
import os
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import flatbuffers
from flatbuffers import number_types
from flatbuffers.table import Table

from exporter.catalogue.names import no_program
from exporter.errors import ExportError
from exporter.file.flatbuffer_tables import Flag, Number, table, tables

TOKENIZER = "thimble.tokenizer"
CHAT_TEMPLATE = "thimble.chat_template"
REPORT = "thimble.report"
DELEGATE = "delegate"
REPORT_BYTES = 16384  # reserved, so that the report can be rewritten in place

_MAGIC = b"THIMBLE1"
_IDENTIFIER = b"THIN"
_VERSION = 1
_FOOTER = struct.Struct("<II8s")  # size and CRC-32 of the record, magic
HEADER = struct.Struct("<4x4s4sIQQQ")  # "ET12", "eh00", length, program size, base, data size
_CHUNK = 1 << 24
_SEGMENT = 1  # executorch_flatbuffer.DataLocation


@dataclass(frozen=True)
class Range:
    """A range of bytes of the file, as listed in the integrity record."""

    name: str
    offset: int
    size: int
    crc32: int
    at_load: bool


def encode_report(report: Mapping[str, Any], size: int = REPORT_BYTES) -> bytes:
    """Returns a report as JSON, padded with spaces to its reserved size."""
    shown = json.dumps(report, ensure_ascii=False, separators=(",", ":"))
    text = shown.encode(errors="replace")  # file names may contain unpaired surrogates
    if len(text) > size:
        raise ExportError(f"The report has {len(text)} bytes; only {size} are reserved for it.")
    return text.ljust(size)


def seal(path: Path, report: Mapping[str, Any]) -> int:
    """Writes the report to its reserved place and the integrity record after the program; returns
    the number by which the runner tells files apart (PteFile::fingerprint).

    Args:
        path: a new `.pte`; an integrity record in it is replaced.
        report: replaces the stored one.
    """
    with open(path, "r+b") as file:
        program_end, blobs, file_size = _layout(file)
        offset, size = blobs[REPORT]
        file.seek(offset)
        file.write(encode_report(report, size))
        ranges = _checked_ranges(file, program_end, blobs, file_size)
        record = _write_record(ranges, file_size)
        file.seek(file_size)
        file.write(record + _FOOTER.pack(len(record), zlib.crc32(record), _MAGIC))
        file.truncate()
    return zlib.crc32(record) << 32 ^ file_size


def replace_blob(path: Path, name: str, data: bytes) -> None:
    """Writes one of our blobs again, in its place, before the file is sealed.

    Args:
        data: at most as long as the blob.
    """
    with open(path, "r+b") as file:
        offset, size = _layout(file)[1][name]
        assert len(data) <= size
        file.seek(offset)
        file.write(data.ljust(size, b"\0"))


def read_report(path: Path) -> dict[str, Any]:
    """Checks all parts that are read at load, and returns the report in a `.pte`.

    Raises:
        ExportError: it is not one of our `.pte` files, or it is damaged.
    """
    return json.loads(read_blob(path, REPORT))


def read_blob(path: Path, name: str) -> bytes:
    """Returns one of our blobs.

    Raises:
        ExportError: it is not one of our `.pte` files, is damaged, or lacks that blob.
    """
    for item in verify(path, everything=False):
        if item.name == name:
            with open(path, "rb") as file:
                file.seek(item.offset)
                return file.read(item.size)
    raise ExportError(f"{path} has no {name}; export it again.")


def is_sealed(path: Path) -> bool:
    """Whether a file has an integrity record: one of another exporter has none."""
    with suppress(OSError), open(path, "rb") as file:
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read() == _MAGIC
    return False


def verify(path: Path, everything: bool) -> list[Range]:
    """Checks the ranges that are read at load, or all of them; returns them.

    Raises:
        ExportError: a part is damaged; the sentence names it.
    """
    if path.is_dir() or not path.exists():
        raise ExportError(f"{no_program(path)}.")
    if not path.is_file():  # a pipe would be waited for
        raise ExportError(f"{path} is not a file; name a .pte.")
    try:
        with open(path, "rb") as file:
            ranges = _read_record(file, path)
            for item in ranges:
                if (item.at_load or everything) and _crc32(file, item) != item.crc32:
                    raise ExportError(
                        f"{path} is damaged in its {item.name}; copy or export it again."
                    )
    except OSError as error:
        raise ExportError(f"{path} cannot be read ({error.strerror}).") from None
    return ranges


def _layout(file: BinaryIO) -> tuple[int, dict[str, tuple[int, int]], int]:
    """Returns the end of the program's flatbuffer, our blobs as (offset, size), the end of the
    file.

    The blobs include what a delegate parses at load, named DELEGATE and a number.
    """
    head = file.read(HEADER.size)
    if len(head) < HEADER.size or head[4:6] != b"ET" or head[8:12] != b"eh00":
        raise ExportError(f"{file.name} is not an ExecuTorch program.")
    *_, program_size, base, data_size = HEADER.unpack(head)
    file.seek(0)
    program = file.read(program_size)
    root = Table(program, struct.unpack_from("<I", program)[0])
    segments = [
        (base + _scalar(item, 0, number_types.Uint64Flags), _scalar(item, 1, _U64))
        for item in _tables(root, 4)
    ]
    blobs = {}
    for item in _tables(root, 7):
        key = item.String(item.Pos + item.Offset(4)).decode()
        if key.startswith("thimble."):
            blobs[key] = segments[_scalar(item, 1, number_types.Uint32Flags)]
    for plan in _tables(root, 1):
        for delegate in _tables(plan, 7):
            processed = Table(root.Bytes, delegate.Indirect(delegate.Pos + delegate.Offset(6)))
            if _scalar(processed, 0, number_types.Int8Flags) == _SEGMENT:
                index = _scalar(processed, 1, number_types.Uint32Flags)
                blobs[f"{DELEGATE} {index}"] = segments[index]
    return program_size, blobs, base + data_size


_U64 = number_types.Uint64Flags


def _scalar(table: Table, field: int, kind: Any) -> int:
    return table.GetSlot(4 + 2 * field, 0, kind)


def _tables(table: Table, field: int) -> list[Table]:
    offset = table.Offset(4 + 2 * field)
    if not offset:
        return []
    start = table.Vector(offset)
    return [
        Table(table.Bytes, table.Indirect(start + 4 * i)) for i in range(table.VectorLen(offset))
    ]


def _checked_ranges(
    file: BinaryIO, program_end: int, blobs: Mapping[str, tuple[int, int]], file_size: int
) -> list[Range]:
    """Returns the complete file as ranges in order: the program, our blobs, the weights between
    them."""
    known = [("program", 0, program_end)]
    known += sorted(((name, *place) for name, place in blobs.items()), key=lambda item: item[1])
    ranges, at = [], 0
    for name, offset, size in [*known, ("", file_size, 0)]:
        if offset > at:
            ranges.append(Range("weights", at, offset - at, 0, False))
        if size:
            ranges.append(Range(name, offset, size, 0, True))
        at = offset + size
    return [
        Range(item.name, item.offset, item.size, _crc32(file, item), item.at_load)
        for item in ranges
    ]


def _crc32(file: BinaryIO, item: Range) -> int:
    file.seek(item.offset)
    crc, left = 0, item.size
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            return -1
        crc, left = zlib.crc32(chunk, crc), left - len(chunk)
    return crc


def _write_record(ranges: list[Range], file_size: int) -> bytes:
    builder = flatbuffers.Builder(1024)
    items = [
        table(
            builder,
            builder.CreateString(item.name),
            Number("Uint64", item.offset),
            Number("Uint64", item.size),
            Number("Uint32", item.crc32),
            Flag(item.at_load),
        )
        for item in ranges
    ]
    fields = Number("Uint32", _VERSION), Number("Uint64", file_size), tables(builder, items)
    builder.Finish(table(builder, *fields), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _read_record(file: BinaryIO, path: Path) -> list[Range]:
    size = file.seek(0, 2)
    file.seek(max(0, size - _FOOTER.size))
    footer = file.read()
    if len(footer) < _FOOTER.size or footer[-8:] != _MAGIC:
        raise ExportError(
            f"{path} has no integrity record at its end: it is truncated, or was not written by "
            "this exporter; copy or export it again."
        )
    length, crc, _ = _FOOTER.unpack(footer)
    file.seek(max(0, size - _FOOTER.size - length))
    record = file.read(length)
    damaged = ExportError(f"{path} is damaged in its integrity record; copy or export it again.")
    if len(record) < length or zlib.crc32(record) != crc:
        raise damaged
    try:
        ranges = _read_ranges(record, path, size - length - _FOOTER.size)
    except (struct.error, ValueError, LookupError, TypeError):  # no flatbuffer
        raise damaged from None
    end = size - length - _FOOTER.size
    if any(item.offset > end or item.size > end - item.offset for item in ranges):
        raise damaged
    return ranges


def _read_ranges(record: bytes, path: Path, covered: int) -> list[Range]:
    """
    Args:
        covered: the size of what the record is about, in bytes.

    Raises:
        ExportError: it is of another version, or of a file of another size.
    """
    root = Table(record, struct.unpack_from("<I", record)[0])
    version = _scalar(root, 0, number_types.Uint32Flags)
    if version != _VERSION:
        raise ExportError(
            f"{path} has an integrity record of version {version}; this exporter reads version "
            f"{_VERSION}: use the exporter that wrote it, or export it again."
        )
    if _scalar(root, 1, _U64) != covered:
        raise ExportError(f"{path} does not have its original size; copy or export it again.")
    return [
        Range(
            item.String(item.Pos + item.Offset(4)).decode(),
            _scalar(item, 1, _U64),
            _scalar(item, 2, _U64),
            _scalar(item, 3, number_types.Uint32Flags),
            bool(_scalar(item, 4, number_types.BoolFlags)),
        )
        for item in _tables(root, 2)
    ]
