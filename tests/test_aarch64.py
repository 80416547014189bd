"""The whole runner for Arm, cross-compiled and run under qemu: it says what this machine's says.

The build needs ExecuTorch's wheel for aarch64, which tests do not download: `python -m runtime
build --target aarch64` does.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from runtime.build import CROSS_COMPILER, build, wheel_directory

EMULATOR = "qemu-aarch64"
SYSROOT = Path("/usr/aarch64-linux-gnu")


@pytest.fixture(scope="module")
def arm_build() -> Path:
    for tool, package in ((CROSS_COMPILER, "g++-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: {package})")
    if not wheel_directory().is_dir():
        pytest.skip("ExecuTorch for Arm is absent: run python -m runtime build --target aarch64")
    return build("aarch64").directory


def run_arm(
    build: Path, model: Path, *options: str, cpu: str = "max"
) -> subprocess.CompletedProcess[str]:
    emulated = [EMULATOR, "-L", SYSROOT, "-cpu", cpu]
    return subprocess.run(
        [*emulated, build / "runner", model, *options], capture_output=True, text=True, timeout=120
    )


@pytest.fixture(params=["stories_pte", "stories_gptq_pte", "embedded_pte"])
def model(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("cpu", ["max", "neoverse-n1"])
def test_the_same_greedy_text(cpp_build: Path, arm_build: Path, model: Path, cpu: str) -> None:
    """With int8 matrix products (max) and without (neoverse-n1)."""
    options = ["-p", "Once", "-n", "40", "--threads", "1"]
    here = subprocess.run(
        [cpp_build / "runner", model, *options], capture_output=True, text=True, check=True
    )
    there = run_arm(arm_build, model, *options, cpu=cpu)
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout != ""


def test_a_damaged_file_is_refused(arm_build: Path, stories_pte: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pte"
    path.write_bytes(stories_pte.read_bytes()[:-30000])
    result = run_arm(arm_build, path, "-p", "x")
    assert result.returncode == 1
    assert result.stderr.startswith(f"runner: {path} is cut short: ")
