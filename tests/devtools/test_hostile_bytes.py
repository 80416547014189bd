"""Whatever bytes a profile, its record or a program has: it is read, or refused in one sentence."""

import json
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from support.hostile_bytes import any_bytes, changed, hostile, read_or_refused
from support.recorded_runs import Recorded

from devtools.commands.recorded_weights import read_weights
from devtools.errors import BadRequest
from devtools.profile.etrecord import read_etrecord
from devtools.profile.limits import load_limits
from devtools.profile.load import load_profile
from devtools.report.program import read_program

Pair = tuple[Path, Path]
GRAPH = "edge_dialect_exported_program/forward"
OP_LIST = b"THCP"  # behind the offset of its root


@pytest.fixture(scope="module")
def pair(recorded: Recorded) -> Pair:
    return recorded("stories_cpu_pte")


@pytest.mark.check
def test_any_profile(pair: Pair, tmp_path: Path) -> None:
    etdump, etrecord = pair
    path = tmp_path / "run.etdp"

    @hostile
    @given(any_bytes(etdump.read_bytes()))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refused(lambda: load_profile(path, etrecord), BadRequest)

    check()


@pytest.mark.check
def test_any_record(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "model.etrecord"
    content = pair[1].read_bytes()

    @hostile
    @given(any_bytes(content))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refused(lambda: read_etrecord(path), BadRequest)
        read_or_refused(lambda: read_weights(path), BadRequest)

    check()


@pytest.mark.check
@pytest.mark.parametrize("name", ["debug_handle_map", "delegate_map", GRAPH])
def test_any_json_of_a_record(name: str, pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "model.etrecord"
    with ZipFile(pair[1]) as archive:
        files = {
            entry.filename: archive.read(entry)
            for entry in archive.infolist()
            if not entry.filename.endswith(("_state_dict", "_constants"))
        }
    document = json.loads(files[name])

    @hostile
    @given(changed(document))
    def check(document: object) -> None:
        buffer = BytesIO()
        with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
            for file, content in files.items():
                archive.writestr(file, json.dumps(document) if file == name else content)
        path.write_bytes(buffer.getvalue())
        read_or_refused(lambda: read_etrecord(path), BadRequest)

    check()


@pytest.mark.parametrize("part", ["program", "op list"])
def test_any_program(part: str, stories_cpu_pte: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    content = stories_cpu_pte.read_bytes()
    begin, size = 0, int.from_bytes(content[16:24], "little")
    if part == "op list":
        begin, size = content.index(OP_LIST) - 4, 16384
    end = begin + size

    @hostile
    @given(any_bytes(content[begin:end]))
    def check(damaged: bytes) -> None:
        path.write_bytes(content[:begin] + damaged.ljust(size, b"\0")[:size] + content[end:])
        read_or_refused(lambda: read_program(path), BadRequest)

    check()


def test_any_limits(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    entry = {"threads": 1, "read_bytes_per_s": 1e9, "int8_operations_per_s": 1e11}

    @hostile
    @given(changed({"limits": [entry]}))
    def check(document: object) -> None:
        path.write_text(json.dumps(document))
        read_or_refused(lambda: load_limits(path, None), BadRequest)

    check()
