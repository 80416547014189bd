"""A file is replaced whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.errors import ExportError
from exporter.file.replacing import replacing


def test_the_new_file_replaces_the_old(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent  # one file system: the rename is atomic
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, ConnectionError])
def test_a_failure_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "model.pte"
    path.write_text("old")
    with pytest.raises(error), replacing(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError), replacing(tmp_path / "model.pte"):
        raise ValueError
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as error, replacing(tmp_path / "model.pte"):
        with open("/dev/full", "wb") as file:
            file.write(bytes(1 << 16))
    assert str(error.value) == (
        f"The disk of {tmp_path}/model.pte cannot store more (No space left on device) and nothing "
        "was written; free some space or choose another place."
    )
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    """And nothing of one that runs, or that only looks alike."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    left = [f".model.pte.{ended.pid}.tmp", f".model.etrecord.{ended.pid}.tmp"]
    kept = [
        *(f".model.pte.{number}.tmp" for number in (running.pid, 1, os.getpid(), "0", "9" * 30)),
        *(f".other.pte.{ended.pid}.tmp", f"model.pte.{ended.pid}.tmp"),
        *(f".modelxpte.{ended.pid}.tmp", ".model.pte.x.tmp", f".model.pte.{ended.pid}.tmp2"),
    ]
    for name in (*left, *kept):
        (tmp_path / name).write_text("half")
    (tmp_path / f".model.pte.0{ended.pid}.tmp").mkdir()
    with replacing(tmp_path / "model.pte"):
        names = {path.name for path in tmp_path.iterdir()}
        assert names >= set(kept) and names & set(left) == {left[1]}
    with replacing(tmp_path / "model.etrecord") as temporary:
        temporary.write_text("whole")
        assert not (tmp_path / left[1]).exists()
    assert (tmp_path / kept[0]).read_text() == "half"
    running.communicate()


def test_nothing_is_written_without_a_request() -> None:
    with replacing(None) as temporary:
        assert temporary is None
