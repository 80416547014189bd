"""The C++ test programs, each with all of its cases; test_kernels.py has those of the kernels."""

import subprocess
from pathlib import Path

import pytest
from support.tiers import checked

DELEGATE = "adapter convolving encoder executor experts samples session state team".split()
SLOW = [f"delegate_{name}_test" for name in ("ops", "ring", "segments")]
PROGRAMS = [
    *("constraint_test", "filters_test", "ops_test", "sampler_test", "schedule_test"),
    *(f"delegate_{name}_test" for name in DELEGATE),
]


@pytest.mark.parametrize("program", [*PROGRAMS, *checked(SLOW)])
def test_program(cpp_build: Path, program: str) -> None:
    result = subprocess.run([cpp_build / program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
