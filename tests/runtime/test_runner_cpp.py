"""The C++ test programs, each with all of its cases; test_kernels.py has those of the kernels."""

import os
import subprocess
from pathlib import Path

import pytest
from support.tiers import checked, soaked

DELEGATE = "adapter convolving encoder executor experts samples session state team".split()
LONG = ["delegate_ops_test", "delegate_segments_test"]
PROGRAMS = [
    *("constraint_test", "filters_test", "ops_test", "sampler_test", "schedule_test"),
    *(f"delegate_{name}_test" for name in DELEGATE),
]


@pytest.mark.parametrize("program", [*PROGRAMS, *checked(["delegate_ring_test"]), *soaked(LONG)])
def test_program(cpp_build: Path, program: str) -> None:
    result = subprocess.run([cpp_build / program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.check
@pytest.mark.parametrize("program", LONG)
def test_some_of_its_shapes(cpp_build: Path, program: str) -> None:
    environment = {**os.environ, "THIMBLE_ONE_OF": "8"}
    result = subprocess.run([cpp_build / program], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
