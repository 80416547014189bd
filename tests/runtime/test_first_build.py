"""The first command that needs the runner builds it, and says so; tools are made up here."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = """
import sys, time
print("[1/4] Building CXX object")
sys.stdout.flush()
if "-C" in sys.argv and {waits}:
    print("started", file=open({mark!r}, "w"), flush=True)
    time.sleep(600)
sys.exit({code})
"""


def start(directory: Path, arguments: list[str], waits: bool, code: int) -> subprocess.Popen[str]:
    """Runs thimble-runner with an empty directory of builds."""
    tool, mark = directory / "tool", directory / "mark"
    tool.write_text(f"#!{sys.executable}\n{TOOL.format(waits=waits, mark=str(mark), code=code)}")
    tool.chmod(0o755)
    script = f"""
    import sys
    from pathlib import Path
    import runtime.build
    import runtime.__main__ as program
    from runtime.commands import results, runner
    directory = Path({str(directory)!r}, "build")
    runtime.build.BUILD_DIR = runner.BUILD_DIR = results.BUILD_DIR = directory
    runtime.build.find_tool = lambda name: Path({str(tool)!r})
    sys.argv = ["thimble-runner", *{arguments!r}]
    program.run_runner()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize(
    ("arguments", "beginning"),
    [
        (["--help"], "Usage: thimble-runner MODEL.pte"),
        (["model.pte", "-h"], "Usage: thimble-runner MODEL.pte"),
        ([], "Usage: thimble-runner MODEL.pte"),
        (["--version"], "thimble 0.1.0; the runner is not built yet\n"),
    ],
)
def test_help_and_version_build_nothing(
    tmp_path: Path, arguments: list[str], beginning: str
) -> None:
    output, errors = start(tmp_path, arguments, False, 1).communicate(timeout=60)
    assert output.startswith(beginning) and errors == ""
    assert not (tmp_path / "build").exists()


def test_a_build_that_fails_is_told(tmp_path: Path) -> None:
    process = start(tmp_path, ["model.pte", "-p", "x"], False, 3)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "")
    assert errors == (
        "The C++ runner is not built yet: building it once, which takes minutes.\n"
        "Error: tool failed with code 3:\n[1/4] Building CXX object\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_build(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, ["model.pte", "-p", "x"], True, 0)
    while not (tmp_path / "mark").is_file():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    said = "Interrupted; the next command continues the build.\n"
    assert process.returncode == 128 + number
    assert errors == (
        "The C++ runner is not built yet: building it once, which takes minutes.\n"
        + (said if number == signal.SIGINT else "")
    )
