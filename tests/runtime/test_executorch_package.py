"""Our programs and libraries where no executorch package lies beside them, as in a wheel that is
installed elsewhere than its requirements."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runtime.build import find_tool

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import sys
from pathlib import Path
import runtime.build
directory = Path(sys.argv.pop(1))
runtime.build.BUILD_DIR = directory
"""
BECOME = """
from runtime.commands import results
results.become_runner(sys.argv[1:])
"""
ABSENT = """
import importlib.util
importlib.util.find_spec = lambda name: None
"""
OPEN = """
from runtime.binding.library import library, open_library
from runtime.errors import RunnerError
try:
    print(library(directory).thimble_version().decode())
    print(open_library(directory / "libthimble_watch.so").thimble_watch_load is not None)
except RunnerError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def programs(cpp_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a wheel's programs, without packages beside it."""
    directory = tmp_path_factory.mktemp("wheel") / "runtime" / "bin"
    install = ["--install", cpp_build, "--component", "wheel", "--prefix", directory]
    subprocess.run([find_tool("cmake"), *install], check=True, capture_output=True)
    command = ["env", "-u", "LD_LIBRARY_PATH", directory / "runner", "--version"]
    alone = subprocess.run(command, capture_output=True, text=True)
    assert alone.returncode == 127 and "libexecutorch" in alone.stderr
    return directory


def run(programs: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), programs, *arguments],
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": "/nowhere"},
        capture_output=True,
        text=True,
    )


def test_the_runner_finds_the_package_of_this_python(programs: Path) -> None:
    told = run(programs, BEGIN + BECOME, "--version")
    assert told.returncode == 0 and told.stdout.startswith("runner 0.1.0\n"), told.stderr


def test_libraries_are_loaded_after_those_of_the_package(programs: Path) -> None:
    told = run(programs, BEGIN + OPEN)
    assert told.stdout == "0.1.0\nTrue\n", told.stdout + told.stderr


def test_without_the_package_one_sentence_says_so(programs: Path) -> None:
    sentence = "the executorch package is not installed: pip install executorch==1.5.1\n"
    told = run(programs, BEGIN + ABSENT + BECOME, "--version")
    assert (told.returncode, told.stdout, told.stderr) == (1, "", "Error: " + sentence)
    told = run(programs, BEGIN + ABSENT + OPEN)
    assert told.stdout == f"cannot load {programs}/libthimble.so: {sentence}"
