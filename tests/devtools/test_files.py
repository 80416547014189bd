"""What the tools write is whole, in a place that can take it, and never in that of their input."""

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.recorded_runs import Recorded
from support.small_disk import small_disk

from devtools.commands.cli import main
from devtools.errors import BadRequest, DevtoolsError
from devtools.files import check_outputs, check_writable, replacing

Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def pair(recorded: Recorded) -> Pair:
    """A run of stories260K through the CPU delegate, and its ETRecord."""
    return recorded("stories_cpu_pte")


def devices(directory: Path) -> list[Path]:
    """A pipe, a link to it and, where this user may make one, a null device; none of the system."""
    pipe, link, null = directory / "pipe", directory / "link", directory / "null"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    try:
        os.mknod(null, 0o20666, os.makedev(1, 3))
    except PermissionError:
        return [pipe, link]
    return [pipe, link, null]


def test_devices_and_pipes_stay(tmp_path: Path) -> None:
    for path in devices(tmp_path):
        before = path.lstat()
        for writes in (check_writable, lambda path: replacing(path).__enter__()):
            with pytest.raises(BadRequest) as error:
                writes(path)
            assert str(error.value) == f"{path} is a device or a pipe; name a file to write."
        assert path.lstat() == before


def test_every_command_refuses_a_pipe_before_it_works(tmp_path: Path) -> None:
    pipe, absent = tmp_path / "pipe", str(tmp_path / "absent")
    os.mkfifo(pipe)
    model = tmp_path / "model.pte"
    model.write_bytes(b"")
    record = ["--etrecord", absent]
    for arguments in (
        ["inspect", absent, *record, "--json"],
        ["inspect", absent, *record, "--csv"],
        ["diff", absent, absent, *record, "--json"],
        ["trace", absent, *record, "--out"],
        ["report", absent, *record, "--out"],
        ["bench", str(model), "--json"],
        ["bench", str(model), "--plot"],
        ["compare", absent, "--checkpoint", absent, "--json"],
    ):
        result = CliRunner().invoke(main, [*arguments, str(pipe)])
        sentence = f"Error: {pipe} is a device or a pipe; name a file to write.\n"
        assert (result.exit_code, result.stderr) == (2, sentence), arguments
        assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["inspect", "@", "--etrecord", "x"], "PROFILE is empty; name a file."),
        (["trace", "x", "--etrecord", "x", "--out", "@"], "--out is empty; name a file."),
        (["bench", "@"], "MODEL is empty; name a .pte file."),
        (["bench", "x", "--against", "@"], "--against is empty; give a text, or leave it out."),
        (
            ["report", "x", "--etrecord", "x", "--out", "x.txt"],
            "x.txt does not end in .html; name ",
        ),
    ],
)
def test_names_that_are_refused(words: list[str], sentence: str) -> None:
    outcome = CliRunner().invoke(main, ["" if word == "@" else word for word in words])
    assert outcome.exit_code == 2 and sentence in outcome.stderr


def test_help_is_not_cut() -> None:
    assert "..." not in CliRunner().invoke(main, ["--help"]).stdout.partition("Commands:")[2]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk(tmp_path: Path, code: int) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    with pytest.raises(DevtoolsError) as error, replacing(path) as temporary:
        temporary.write_text("half")
        raise OSError(code, os.strerror(code))
    assert str(error.value) == (
        f"The disk cannot store more ({os.strerror(code)}) and {path} was not written; free some "
        "space or choose another place."
    )
    assert not isinstance(error.value, BadRequest)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "--json", "out.json"],
        ["inspect", "--csv", "out.csv"],
        ["trace", "--out", "out.json"],
        ["report", "--out", "out.html"],
    ],
)
def test_a_limit_on_the_size_of_files(words: list[str], pair: Pair, tmp_path: Path) -> None:
    command, option, name = words
    etdump, etrecord = map(str, pair)
    out = tmp_path / name
    arguments = [command, etdump, "--etrecord", etrecord, option, str(out)]
    with small_disk(1000):
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: The disk cannot store more (File too large) and {out} was not written; free some "
        "space or choose another place.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("letter", ["a", "é"])
def test_names_as_long_as_they_may_be(letter: str, tmp_path: Path) -> None:
    path = tmp_path / (letter * (250 // len(letter.encode())) + ".json")
    with replacing(path) as temporary:
        assert temporary.suffix == ".json"
        temporary.write_text("new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_names_that_are_too_long(tmp_path: Path) -> None:
    path = tmp_path / (300 * "a" + ".json")
    with pytest.raises(BadRequest) as error, replacing(path):
        pass
    assert str(error.value) == f"{path} cannot be written (File name too long); name another file."


def test_a_result_has_a_file_of_its_own(tmp_path: Path) -> None:
    read, link, out = tmp_path / "run.etdp", tmp_path / "link", tmp_path / "out"
    read.write_bytes(b"")
    link.symlink_to(read)
    check_outputs((out, None, tmp_path / "other"), (read, None))
    for path in (read, link, tmp_path / "." / "run.etdp"):
        with pytest.raises(BadRequest) as error:
            check_outputs((out, path), (None, read))
        assert str(error.value) == f"{path} is also an input; name another file to write."
    for _ in range(2):  # absent, and there already
        again = tmp_path / ".." / tmp_path.name / "out"
        with pytest.raises(BadRequest) as error:
            check_outputs((out, again), ())
        assert str(error.value) == f"{again} is used for two results; name a file for each."
        out.write_bytes(b"")


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "PROFILE", "--json", "PROFILE"],
        ["inspect", "PROFILE", "--csv", "RECORD"],
        ["inspect", "PROFILE", "--limits", "OTHER", "--json", "OTHER"],
        ["trace", "PROFILE", "--out", "PROFILE"],
        ["report", "PROFILE", "--out", "RECORD"],
        ["report", "PROFILE", "--pte", "OTHER", "--out", "OTHER"],
        ["diff", "PROFILE", "PROFILE", "--again-b", "OTHER", "--json", "OTHER"],
    ],
)
def test_what_is_read_is_never_written(words: list[str], pair: Pair, tmp_path: Path) -> None:
    etdump, etrecord = pair
    files = {"PROFILE": etdump, "RECORD": etrecord, "OTHER": tmp_path / "other"}
    files["OTHER"].write_bytes(b"mine")
    before = [path.read_bytes() for path in files.values()]
    arguments = [str(files.get(word, word)) for word in words]
    result = CliRunner().invoke(main, [*arguments, "--etrecord", str(etrecord)])
    sentence = f"Error: {arguments[-1]} is also an input; name another file to write.\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", sentence)
    assert [path.read_bytes() for path in files.values()] == before
