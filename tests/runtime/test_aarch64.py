"""The whole runner for Arm, alone and of a wheel, under qemu: it says what this machine's says.

The build needs ExecuTorch's wheel for aarch64, which tests do not download: `python -m runtime
build --target aarch64` does.
"""

import os
import re
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

from runtime.build import CROSS_COMPILER, build, wheel_directory
from runtime.packaging.package import package

pytestmark = pytest.mark.soak

EMULATOR = "qemu-aarch64"
SYSROOT = Path("/usr/aarch64-linux-gnu")


@pytest.fixture(scope="module")
def arm_build() -> Path:
    for tool, needed in ((CROSS_COMPILER, "g++-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: {needed})")
    if not wheel_directory().is_dir():
        pytest.skip("ExecuTorch for Arm is absent: run python -m runtime build --target aarch64")
    return build("aarch64", ("runner",)).directory


def run_arm(
    build: Path, model: Path, *options: str | Path, cpu: str = "max"
) -> subprocess.CompletedProcess[str]:
    emulated = [EMULATOR, "-L", SYSROOT, "-cpu", cpu]
    return subprocess.run(
        [*emulated, build / "runner", model, *options], capture_output=True, text=True, timeout=120
    )


def run_here(build: Path, model: Path, *options: str | Path) -> str:
    command = [build / "runner", model, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


XNNPACK = ["stories_pte", "stories_gptq_pte", "embedded_pte"]
CPU = ["stories_cpu_float_pte", "stories_cpu_pte", "embedded_cpu_pte"]


@pytest.fixture(params=[*XNNPACK, *CPU])
def model(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("cpu", ["max", "neoverse-n1"])
def test_the_same_greedy_text(cpp_build: Path, arm_build: Path, model: Path, cpu: str) -> None:
    """With int8 matrix products (max) and without (neoverse-n1)."""
    options = ["-p", "Once", "-n", "40", "--threads", "1"]
    there = run_arm(arm_build, model, *options, cpu=cpu)
    assert there.returncode == 0, there.stderr
    assert there.stdout == run_here(cpp_build, model, *options) != ""


@pytest.mark.parametrize(
    ("cpu", "kernels"),
    [("max", "neon_i8mm"), ("neoverse-n1", "neon_dotprod"), ("cortex-a72", "scalar")],
)
def test_the_kernels_of_an_arm_cpu(
    arm_build: Path, stories_cpu_pte: Path, cpu: str, kernels: str
) -> None:
    result = run_arm(arm_build, stories_cpu_pte, "-p", "Once", "-n", "2", cpu=cpu)
    assert result.returncode == 0 and f"kernels {kernels}, " in result.stderr


def test_kernels_that_a_cpu_cannot_run(
    arm_build: Path, stories_cpu_pte: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THIMBLE_KERNELS", "neon_i8mm")
    result = run_arm(arm_build, stories_cpu_pte, "-p", "Once", cpu="neoverse-n1")
    assert (result.returncode, result.stdout) == (2, "")
    assert "THIMBLE_KERNELS is neon_i8mm, which this CPU cannot run" in result.stderr


def test_a_session_goes_from_here_to_there(
    cpp_build: Path, arm_build: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    session = tmp_path / "story.session"
    options = ["-p", "Once upon a time", "-n", "20", "--threads", "1", "--session", session]
    here = run_here(cpp_build, stories_cpu_pte, *options)
    there = run_arm(arm_build, stories_cpu_pte, *options)
    assert (there.returncode, there.stdout) == (0, here)
    assert there.stderr.startswith("runner: 1 prompt (4 more cached) + 20 generated tokens")


def test_a_damaged_file_is_refused(arm_build: Path, stories_pte: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pte"
    path.write_bytes(stories_pte.read_bytes()[:-30000])
    result = run_arm(arm_build, path, "-p", "x")
    assert result.returncode == 2
    assert result.stderr.startswith(f"runner: {path} is truncated: ")


def test_a_wheel_for_arm(
    cpp_build: Path, arm_build: Path, embedded_cpu_pte: Path, tmp_path: Path
) -> None:
    """Unpacked beside ExecuTorch's, it finds that one's libraries, and nothing of this machine."""
    wheel = package(tmp_path, "aarch64", partial=True)
    (tag,) = re.findall(r"^thimble_ml-[^-]+-(py3-none-manylinux_2_\d\d_aarch64)\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert f"Tag: {tag}\n" in archive.read(name).decode()
    (tmp_path / "executorch").symlink_to(wheel_directory())
    binaries = tmp_path / "runtime" / "bin"
    programs = [path for path in binaries.iterdir() if path.read_bytes().startswith(b"\x7fELF")]
    made = {"runner", "bench", "libthimble.so", "libthimble_cpu.so", "libthimble_watch.so"}
    assert made <= {path.name for path in programs}
    for path in programs:
        assert struct.unpack_from("<H", path.read_bytes(), 18) == (183,), path  # AArch64
        assert os.fsencode(arm_build) not in path.read_bytes(), path
    (binaries / "runner").chmod(0o755)
    options = ["-p", "import", "-n", "40", "--threads", "1"]
    there = run_arm(binaries, embedded_cpu_pte, *options)
    assert there.returncode == 0, there.stderr
    assert there.stdout == run_here(cpp_build, embedded_cpu_pte, *options) != ""
