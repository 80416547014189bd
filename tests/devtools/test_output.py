"""What becomes of a command whose standard output is closed, or whose reader leaves."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.recorded_runs import Recorded

from devtools.commands.bench_tables import Display

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pair(recorded: Recorded) -> tuple[Path, Path]:
    return recorded("stories_cpu_pte")


def commands(pair: tuple[Path, Path], out: Path) -> dict[str, list[str]]:
    etdump, etrecord = map(str, pair)
    written = str(out)
    return {
        "inspect": ["inspect", etdump, "--etrecord", etrecord, "--json", written],
        "diff": ["diff", etdump, etdump, "--etrecord", etrecord, "--json", written],
        "report": ["report", etdump, "--etrecord", etrecord, "--out", written],
        "trace": ["trace", etdump, "--etrecord", etrecord, "--out", written],
    }


def shell(script: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a line of bash in which "$@" is the command."""
    words = [sys.executable, "-m", "devtools", *command]
    return subprocess.run(
        ["bash", "-c", script, "bash", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("name", ["inspect", "diff", "report", "trace"])
def test_closed_output_changes_no_file(pair: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    out = tmp_path / ("out.html" if name == "report" else "out.json")
    result = shell('"$@" >&-', commands(pair, out)[name])
    assert result.returncode == 1
    assert result.stderr == "Error: standard output cannot be written (Bad file descriptor).\n"
    assert out.stat().st_size > 1000


@pytest.mark.parametrize("name", ["inspect", "diff"])
def test_a_reader_that_leaves_changes_no_file(
    pair: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    """The pipe is broken before the first line: its only reader has ended."""
    out = tmp_path / "out.json"
    script = 'exec 3> >(exit); wait $!; "$@" >&3'
    result = shell(script, commands(pair, out)[name])
    assert (result.returncode, result.stderr) == (1, "")
    assert json.loads(out.read_text())["phases"]


@pytest.mark.parametrize("name", ["inspect", "diff"])
def test_one_line_of_many(pair: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    command = commands(pair, tmp_path / "out.json")[name]
    result = shell('"$@" | head -1; exit ${PIPESTATUS[0]}', command)
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.count("\n") == 1 and "coverage" in result.stdout


@pytest.mark.check
def test_refusals_keep_their_code(pair: tuple[Path, Path], tmp_path: Path) -> None:
    command = ["inspect", str(tmp_path / "none.etdp"), "--etrecord", str(pair[1])]
    for script in ('"$@" >&-', '"$@" | true; exit ${PIPESTATUS[0]}', '"$@" 2>&-'):
        result = shell(script, command)
        assert result.returncode == 2 and "Traceback" not in result.stderr
    assert shell('"$@"', command).stderr.startswith("Error: ")


def test_a_full_disk_is_a_failure(pair: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = shell('"$@" > /dev/full', commands(pair, out)["inspect"])
    assert result.returncode == 1
    assert result.stderr == "Error: standard output cannot be written (No space left on device).\n"
    assert json.loads(out.read_text())["phases"]


def test_without_a_terminal_a_line_tells_how_far_a_measurement_is() -> None:
    said, now = io.StringIO(), 0.0
    with Display(said, lambda: now) as display:
        display.begin(5)
        for seconds, what in ((0, "a"), (9, "b"), (10, "c"), (12, "d"), (300, "e")):
            now = float(seconds)
            display.step(what)
    assert said.getvalue() == "1 of 5: a\n3 of 5: c\n5 of 5: e\n"
