"""An ETRecord holds each weight once, compressed, and ExecuTorch still reads it."""

import shutil
import tempfile
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
from exporter.file.etrecord import save_etrecord
from exporter.file.pte import read_report
from exporter.file.writing import seal_files

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


def test_the_file_is_the_same_without_a_record(recorded: Recorded, tmp_path: Path) -> None:
    """So that a profile of one is of the other, too."""
    _, path = recorded("stories_cpu_pte")
    report = read_report(path.with_suffix(".pte"))
    sealed = []
    for etrecord in (None, tmp_path / "copy.etrecord"):
        pte = Path(shutil.copy(path.with_suffix(".pte"), tmp_path / "copy.pte"))
        if etrecord is not None:
            shutil.copy(path, etrecord)
        seal_files(report, pte, etrecord)
        sealed.append(pte.read_bytes())
    assert sealed[0] == sealed[1] and "etrecord" not in report


def test_a_record_that_cannot_be_saved_leaves_nothing_beside_it(tmp_path: Path) -> None:
    class Failing:
        exported_program = object()

        def save(self, file: "tempfile._TemporaryFileWrapper[bytes]") -> None:
            file.write(b"half")
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        save_etrecord(Failing(), tmp_path / "model.etrecord")
    assert list(tmp_path.iterdir()) == []
