"""An ETRecord holds each weight once, compressed, and ExecuTorch still reads it."""

import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch
from executorch.devtools.etrecord import parse_etrecord
from support.recorded_runs import Recorded
from support.tiers import checked

from devtools.commands.recorded_weights import read_weights
from devtools.report.program import read_program
from exporter.file.etrecord import holds_weights, save_etrecord, weights_crc32

MODELS = ["stories_cpu_pte", *checked(["stories_gptq_pte"])]


@pytest.mark.parametrize("name", MODELS)
def test_a_record_holds_weights_once(recorded: Recorded, name: str) -> None:
    _, path = recorded(name)
    with ZipFile(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        named = archive.comment.decode()
    assert named == read_program(path.with_suffix(".pte")).fingerprint
    weights = [entry for entry in entries if entry.endswith("_state_dict")]
    assert weights == ["edge_dialect_exported_program/forward_state_dict"]
    assert "exported_program" not in entries
    assert all(entry.compress_type == ZIP_DEFLATED for entry in entries.values())
    caches = entries["edge_dialect_exported_program/forward_constants"]
    assert caches.compress_size < caches.file_size / 4  # they are empty


@pytest.mark.parametrize("name", MODELS)
def test_executorch_reads_the_weights_that_compare_reads(recorded: Recorded, name: str) -> None:
    _, path = recorded(name)
    program: Any = parse_etrecord(str(path)).edge_dialect_program
    ours = read_weights(path)
    assert program.state_dict.keys() == ours.keys()
    assert all(torch.equal(tensor, ours[key]) for key, tensor in program.state_dict.items())


def test_a_record_of_two_programs_is_known_by_either(recorded: Recorded, tmp_path: Path) -> None:
    _, path = recorded("stories_cpu_pte")
    own = weights_crc32(path)
    assert own is not None and holds_weights(path, own) and not holds_weights(path, "00000001")
    two = tmp_path / "two.etrecord"
    shutil.copy(path, two)
    other = b"the captured program's"
    with ZipFile(two, "a") as archive:
        archive.writestr("exported_program_state_dict", other)
    assert holds_weights(two, own) and holds_weights(two, f"{zlib.crc32(other):08x}")


def test_a_record_that_cannot_be_saved_leaves_nothing_beside_it(tmp_path: Path) -> None:
    class Failing:
        exported_program = object()

        def save(self, file: "tempfile._TemporaryFileWrapper[bytes]") -> None:
            file.write(b"half")
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        save_etrecord(Failing(), tmp_path / "model.etrecord")
    assert list(tmp_path.iterdir()) == []
