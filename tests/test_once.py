"""What is shared between test runs is never stale."""

from pathlib import Path

import pytest
from support.once import digest_of, find_or_make


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "module.py").write_text("A = 1\n")
    return folder


def test_every_change_of_a_source_is_another_digest(sources: Path) -> None:
    module = sources / "inner" / "module.py"
    found = [digest_of([sources], [], [])]
    module.write_text("A = 2\n")
    found.append(digest_of([sources], [], []))
    module = module.rename(sources / "module.py")
    found.append(digest_of([sources], [], []))
    (sources / "data.bin").touch()
    found.append(digest_of([sources], [], []))
    found.append(digest_of([sources], [], ["torch-2.13.0.dist-info"]))
    found.append(digest_of([sources], [module], ["torch-2.13.0.dist-info"]))
    module.touch()
    found.append(digest_of([sources], [module], ["torch-2.13.0.dist-info"]))
    assert len(set(found)) == len(found)
    assert digest_of([sources], [module], ["torch-2.13.0.dist-info"]) == found[-1]


def test_what_was_compiled_of_a_source_is_none(sources: Path) -> None:
    before = digest_of([sources], [], [])
    (sources / "__pycache__").mkdir()
    (sources / "__pycache__" / "module.pyc").touch()
    assert digest_of([sources], [], []) == before


class Maker:
    """Writes how many times it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, directory: Path) -> Path:
        self.calls += 1
        (directory / "beside").write_text("x")
        path = directory / "file"
        path.write_text(str(self.calls))
        return path


def test_a_file_is_made_once_and_again_when_it_was_changed(tmp_path: Path) -> None:
    make = Maker()

    def find(run: str) -> str:
        path = find_or_make(tmp_path, "name", make, tmp_path / run, lambda: True)
        return path.read_text()

    assert [find("first"), find("first")] == ["1", "1"]
    (tmp_path / "name" / "later").touch()
    assert find("second") == "1"
    (tmp_path / "name" / "beside").write_text("y")
    assert [find("second"), find("third")] == ["2", "2"]
    (tmp_path / "name" / "file").unlink()
    assert find("third") == "3"


def test_what_changing_sources_made_serves_one_run(tmp_path: Path) -> None:
    make = Maker()
    for run, count in (("first", "1"), ("first", "1"), ("second", "2")):
        path = find_or_make(tmp_path, "name", make, tmp_path / run, lambda: False)
        assert path.read_text() == count


def test_a_failure_leaves_nothing_that_is_found(tmp_path: Path) -> None:
    def fail(directory: Path) -> Path:
        (directory / "file").touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        find_or_make(tmp_path, "name", fail, tmp_path, lambda: True)
    assert find_or_make(tmp_path, "name", Maker(), tmp_path, lambda: True).read_text() == "1"
