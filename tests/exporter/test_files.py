"""A file is replaced whole or not at all."""

from pathlib import Path

import pytest

from exporter.errors import ExportError
from exporter.files import replacing


def test_the_new_file_takes_the_place_of_the_old(tmp_path: Path) -> None:
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
        "The disk takes no more (No space left on device) and nothing was written; free some space "
        "or name another place."
    )
    assert list(tmp_path.iterdir()) == []


def test_nothing_asked_for_is_nothing_written() -> None:
    with replacing(None) as temporary:
        assert temporary is None
