"""The parts of a `.pte` that are ours: readable by stock ExecuTorch, checked to the last byte."""

import json
import os
import random
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import asdict
from pathlib import Path

import executorch
import pytest
from click.testing import CliRunner

from exporter.commands.cli import main
from exporter.errors import ExportError
from exporter.file.pte import (
    DELEGATE,
    REPORT,
    REPORT_BYTES,
    TOKENIZER,
    Range,
    encode_report,
    read_blob,
    read_report,
    seal,
    verify,
)

FOOTER = 16  # size of the record, its CRC-32, the magic
SCHEMA = Path(__file__).resolve().parents[2] / "exporter" / "schemas" / "integrity.fbs"


@pytest.fixture
def copied(stories_pte: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(stories_pte, tmp_path / "copy.pte"))


def _flip(path: Path, position: int, mask: int = 0x10) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ mask]))


def test_stock_executorch_reads_the_named_data(stories_pte: Path) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary

    named_data = deserialize_pte_binary(stories_pte.read_bytes()).named_data
    assert named_data is not None
    stored = {
        name: bytes(named_data.buffers[entry.buffer_index])
        for name, entry in named_data.pte_data.items()
    }
    ours = {name for name in stored if name.startswith("thimble.")}
    assert ours == {TOKENIZER, REPORT}  # stories260K has no chat template
    for name in ours:
        assert stored[name] == read_blob(stories_pte, name)
    assert stored[TOKENIZER][4:8] == b"THTK"


def test_our_blobs_are_aligned(stories_pte: Path) -> None:
    for item in verify(stories_pte, everything=True):
        if item.name.startswith("thimble."):
            assert item.offset % 16 == 0


def test_the_ranges_tile_the_file(stories_pte: Path) -> None:
    ranges = verify(stories_pte, everything=True)
    at = 0
    for item in ranges:
        assert item.offset == at and item.size > 0
        at += item.size
    data = stories_pte.read_bytes()
    length, crc, magic = struct.unpack("<II8s", data[-FOOTER:])
    assert at == len(data) - FOOTER - length
    assert magic == b"THIMBLE1"
    assert zlib.crc32(data[at:-FOOTER]) == crc
    assert ranges[0].name == "program" and ranges[0].at_load
    names = {item.name.split()[0] for item in ranges}
    assert names == {"program", "weights", DELEGATE, TOKENIZER, REPORT}
    assert all(item.at_load == (item.name != "weights") for item in ranges)


def test_flatc_reads_the_record_by_the_schema(stories_pte: Path, tmp_path: Path) -> None:
    data = stories_pte.read_bytes()
    length = struct.unpack("<I", data[-FOOTER : -FOOTER + 4])[0]
    record = tmp_path / "integrity.bin"
    record.write_bytes(data[-FOOTER - length : -FOOTER])
    flatc = Path(executorch.__path__[0]) / "data" / "bin" / "flatc"
    options = ["--json", "--strict-json", "-o", str(tmp_path)]
    subprocess.run([flatc, *options, SCHEMA, "--", record], check=True, timeout=60)
    read = json.loads((tmp_path / "integrity.json").read_text())
    assert read["version"] == 1
    assert read["file_size"] == len(data) - FOOTER - length
    defaults = {"offset": 0, "size": 0, "crc32": 0, "at_load": False}
    expected = [asdict(item) for item in verify(stories_pte, everything=False)]
    assert [{**defaults, **item} for item in read["ranges"]] == expected


def _positions(item: Range) -> list[int]:
    """The first byte of a range, its last, and some between."""
    inside = random.Random(item.offset).choices(range(item.size), k=3)
    return [item.offset + at for at in (0, item.size - 1, *inside)]


def test_a_flipped_byte_is_found_and_placed(copied: Path) -> None:
    for item in verify(copied, everything=True):
        for position in _positions(item):
            _flip(copied, position)
            with pytest.raises(ExportError) as error:
                verify(copied, everything=True)
            sentence = f"{copied} is damaged in its {item.name}; copy or export it again."
            assert str(error.value) == sentence
            if item.at_load:
                with pytest.raises(ExportError, match=f"damaged in its {item.name};"):
                    read_report(copied)
            else:
                verify(copied, everything=False)  # weights are only read when asked for
            _flip(copied, position)
    verify(copied, everything=True)


def test_a_flipped_bit_of_the_record_is_found(copied: Path) -> None:
    data = copied.read_bytes()
    length = struct.unpack("<I", data[-FOOTER : -FOOTER + 4])[0]
    start = len(data) - FOOTER - length
    for position in [*range(start, len(data) - FOOTER, 61), *range(len(data) - FOOTER, len(data))]:
        _flip(copied, position, 1)
        with pytest.raises(ExportError, match="integrity record"):
            verify(copied, everything=False)
        _flip(copied, position, 1)


def test_a_cut_file_is_refused_at_every_length(copied: Path, tmp_path: Path) -> None:
    data = copied.read_bytes()
    lengths = random.Random(3).choices(range(len(data)), k=40)
    cut = tmp_path / "cut.pte"
    for length in [0, 1, 15, 16, 17, 64, len(data) // 2, len(data) - 1, *lengths]:
        cut.write_bytes(data[:length])
        with pytest.raises(ExportError, match="no integrity record at its end: it is truncated"):
            verify(cut, everything=False)


def test_bytes_lost_or_gained_inside_are_found(copied: Path, tmp_path: Path) -> None:
    data, other = copied.read_bytes(), tmp_path / "other.pte"
    middle = len(data) // 2
    for changed in (data[:middle] + data[middle + 1 :], data[:middle] + b"x" + data[middle:]):
        other.write_bytes(changed)
        with pytest.raises(ExportError, match="does not have its original size"):
            verify(other, everything=False)
    other.write_bytes(data + b"\n")
    with pytest.raises(ExportError, match="no integrity record at its end"):
        verify(other, everything=False)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" * 99, b"GGUF" + bytes(4096), b"{}" * 999])
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ExportError, match="was not written by this exporter"):
        verify(path, everything=False)
    with pytest.raises(ExportError, match="other is not an ExecuTorch program"):
        seal(path, {})


def test_a_stock_pte_is_not_ours(copied: Path) -> None:
    size = sum(item.size for item in verify(copied, everything=False))
    copied.write_bytes(copied.read_bytes()[:size])  # what ExecuTorch itself wrote
    with pytest.raises(ExportError, match="was not written by this exporter"):
        read_report(copied)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"there is no file .*none\.pte: name a"):
        verify(tmp_path / "none.pte", everything=False)
    with pytest.raises(ExportError, match=r"is a directory: name a \.pte"):
        verify(tmp_path, everything=False)


def test_another_version_is_named(copied: Path) -> None:
    data = copied.read_bytes()
    length = struct.unpack("<I", data[-FOOTER : -FOOTER + 4])[0]
    record = bytearray(data[-FOOTER - length : -FOOTER])
    root = struct.unpack_from("<I", record)[0]
    table = root - struct.unpack_from("<i", record, root)[0]
    version = root + struct.unpack_from("<H", record, table + 4)[0]
    struct.pack_into("<I", record, version, 7)
    footer = struct.pack("<II8s", length, zlib.crc32(record), b"THIMBLE1")
    copied.write_bytes(data[: -FOOTER - length] + record + footer)
    with pytest.raises(ExportError, match="an integrity record of version 7; this exporter reads"):
        verify(copied, everything=False)


def test_sealing_again_changes_nothing(copied: Path) -> None:
    before = copied.read_bytes()
    seal(copied, read_report(copied))
    assert copied.read_bytes() == before


def test_sealing_another_report_changes_only_it(copied: Path) -> None:
    before = verify(copied, everything=True)
    seal(copied, {"model": {"name": "über"}})
    after = verify(copied, everything=True)
    assert read_report(copied) == {"model": {"name": "über"}}
    changed = [new.name for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [REPORT]


def test_a_report_fills_its_place_and_not_more() -> None:
    frame = len(encode_report({"x": ""}).rstrip())
    assert len(encode_report({"x": "a" * (REPORT_BYTES - frame)})) == REPORT_BYTES
    with pytest.raises(ExportError, match=f"has {REPORT_BYTES + 1} bytes; only"):
        encode_report({"x": "a" * (REPORT_BYTES - frame + 1)})


def test_a_blob_that_is_not_there(stories_pte: Path) -> None:
    with pytest.raises(ExportError, match=r"has no thimble\.chat_template; export it again"):
        read_blob(stories_pte, "thimble.chat_template")


def test_a_pipe_is_no_pte(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = CliRunner().invoke(main, ["--inspect", str(tmp_path / "pipe")])
    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path / 'pipe'} is not a file; name a .pte.\n"


def test_inspecting_what_is_not_ours(tmp_path: Path, stories_pte: Path) -> None:
    damaged = tmp_path / "damaged.pte"
    data = bytearray(stories_pte.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    (tmp_path / "text.pte").write_text("Once")
    for name, sentence in (
        ("text.pte", r"has no integrity record at its end: .*\."),
        ("damaged.pte", r"is damaged in its [\w. ]+; copy or export it again\."),
    ):
        result = CliRunner().invoke(main, ["--inspect", str(tmp_path / name)])
        assert result.exit_code == 2 and result.stdout == ""
        assert re.fullmatch(f"Error: {re.escape(str(tmp_path / name))} {sentence}\n", result.stderr)
