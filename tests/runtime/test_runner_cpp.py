"""The C++ test programs, each with all of its cases; test_kernels.py has those of the kernels."""

import os
import subprocess
from pathlib import Path

import pytest
from support.tiers import checked, soaked

LONG = [("delegate_test", "ops"), ("delegate_test", "segments")]
SUITES = "adapter convolving encoder executor experts samples session".split()
PROGRAMS = [
    *((f"{name}_test",) for name in ("constraint", "filters", "ops", "sampler", "schedule")),
    *(("delegate_test", suite) for suite in SUITES),
    ("delegate_team_test",),
]


@pytest.mark.parametrize(
    "command",
    [*PROGRAMS, *checked(("delegate_test", suite) for suite in ("ring", "state")), *soaked(LONG)],
    ids=" ".join,
)
def test_program(cpp_build: Path, command: tuple[str, ...]) -> None:
    program, *arguments = command
    result = subprocess.run([cpp_build / program, *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.check
@pytest.mark.parametrize("command", LONG, ids=" ".join)
def test_some_of_its_shapes(cpp_build: Path, command: tuple[str, ...]) -> None:
    program, *arguments = command
    environment = {**os.environ, "THIMBLE_ONE_OF": "8"}
    result = subprocess.run(
        [cpp_build / program, *arguments], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
