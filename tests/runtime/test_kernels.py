"""The CPU kernels, every variant against scalar: on this machine, and (`make check`) for Arm under
qemu.

The C++ programs run every variant that their CPU supports; the tests here say on which CPU, and
check that it really offered the variants that are to be tested.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support.kernel_programs import PROGRAMS, SOURCES
from support.tiers import checked, soaked
from torchao.quantization.quant_primitives import (
    MappingType,
    choose_qparams_affine,
    quantize_affine,
)

BUILD = Path(__file__).resolve().parents[2] / "build" / "aarch64-kernels"
CROSS_COMPILER = "aarch64-linux-gnu-g++"
QEMU = "qemu-aarch64"

SLOW = ["kernel_attention_test", "kernel_linear_test"]  # half a minute each, emulated
QUICK = [program for program in PROGRAMS if program not in SLOW]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def aarch64_build() -> Path:
    """The kernels and their tests cross-compiled, by themselves: they need nothing else."""
    for tool, package in ((CROSS_COMPILER, "g++-aarch64-linux-gnu"), (QEMU, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: {package})")
    beside_python = Path(sys.executable).parent
    path = f"{beside_python}{os.pathsep}{os.environ['PATH']}"
    options = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_CXX_COMPILER": CROSS_COMPILER,
        "CMAKE_EXE_LINKER_FLAGS": "-static",
    }
    configure = ["cmake", "-G", "Ninja", "-S", SOURCES, "-B", BUILD]
    configure += [f"-D{name}={value}" for name, value in options.items()]
    for command in (configure, ["ninja", "-C", BUILD]):
        result = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
        assert result.returncode == 0, result.stdout + result.stderr
    return BUILD


def runs_in(directory: Path, *prefix: str, one_of: int = 1) -> Run:
    environment = {**os.environ, "THIMBLE_ONE_OF": str(one_of)}

    def call(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*prefix, directory / program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    return call


@pytest.fixture(scope="session")
def some(cpp_build: Path) -> Run:
    """Runs a test program of the host's build, with some of its shapes."""
    return runs_in(cpp_build, one_of=8)


@pytest.fixture(scope="session")
def host(cpp_build: Path) -> Run:
    """The same with all."""
    return runs_in(cpp_build)


@pytest.fixture(scope="session")
def arm(aarch64_build: Path) -> Run:
    """Runs a test program of Arm's build, with some of its shapes, on a CPU that has everything."""
    return runs_in(aarch64_build, QEMU, "-cpu", "max", one_of=16)


@pytest.fixture(scope="session", params=["some", *checked(["arm"]), *soaked(["host"])])
def run(request: pytest.FixtureRequest) -> Run:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(run: Run, program: str) -> None:
    result = run(program)
    assert result.returncode == 0, result.stderr


def supported(*command: str | Path) -> list[str]:
    result = subprocess.run([*command, "--supported"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def may_use_tiles() -> bool:
    """Whether the kernel lets a process use AMX: ARCH_REQ_XCOMP_PERM, from Linux 5.16 on."""
    ask = "import ctypes; exit(ctypes.CDLL(None).syscall(158, 0x1023, 18) != 0)"
    return subprocess.run([sys.executable, "-c", ask]).returncode == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the variants of x86")
def test_variants_of_this_cpu(cpp_build: Path) -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    expected = ["scalar"]
    if " avx2 " in flags and " fma " in flags:
        expected.insert(0, "avx2")
    if " avx_vnni " in flags:
        expected.insert(0, "avxvnni")
    if " avx512_vnni " in flags:
        expected.insert(0, "avx512vnni")
    if " amx_int8 " in flags and may_use_tiles():
        expected.insert(0, "amx_int8")
    assert supported(cpp_build / "kernel_select_test") == expected


@pytest.mark.check
@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ("max", ["neon_i8mm", "neon_dotprod", "scalar"]),
        ("neoverse-n1", ["neon_dotprod", "scalar"]),
        ("cortex-a72", ["scalar"]),
    ],
)
def test_variants_of_arm(aarch64_build: Path, cpu: str, expected: list[str]) -> None:
    program = aarch64_build / "kernel_select_test"
    assert supported(QEMU, "-cpu", cpu, program) == expected


@pytest.mark.soak
@pytest.mark.parametrize("program", SLOW)
def test_every_shape_on_arm(aarch64_build: Path, program: str) -> None:
    result = runs_in(aarch64_build, QEMU, "-cpu", "max")(program)
    assert result.returncode == 0, result.stderr


@pytest.mark.check
@pytest.mark.parametrize("program", [*QUICK, *soaked(SLOW)])
def test_arm_without_i8mm(aarch64_build: Path, program: str) -> None:
    """No instruction of i8mm slips into what a CPU without it runs."""
    result = runs_in(aarch64_build, QEMU, "-cpu", "neoverse-n1", one_of=8)(program)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="session")
def qemu_x86_64() -> str:
    if platform.machine() != "x86_64":
        pytest.skip("the programs of this machine are not x86's")
    name = "qemu-x86_64"
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed (Debian: qemu-user)")
    return name


X86 = {"Haswell": ["avx2", "scalar"], "Nehalem": ["scalar"]}


@pytest.mark.parametrize("cpu", X86)
def test_variants_of_older_x86(cpp_build: Path, qemu_x86_64: str, cpu: str) -> None:
    """No instruction of a better variant runs at start."""
    program = cpp_build / "kernel_select_test"
    assert supported(qemu_x86_64, "-cpu", cpu, program) == X86[cpu]


@pytest.mark.check
@pytest.mark.parametrize("cpu", X86)
def test_the_runner_on_older_x86(
    cpp_build: Path, qemu_x86_64: str, stories_cpu_pte: Path, cpu: str
) -> None:
    """Nor later. The text is the same, as all variants compute the same numbers."""
    command = [cpp_build / "runner", stories_cpu_pte, "-p", "Once upon", "-n", "16"]
    options = {"capture_output": True, "text": True, "timeout": 600}
    here = subprocess.run(command, **options)
    there = subprocess.run([qemu_x86_64, "-cpu", cpu, *command], **options)
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout


def selected(build: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [build / "kernel_select_test", "--selected"],
        capture_output=True,
        text=True,
        env={**os.environ, "THIMBLE_KERNELS": name},
    )


def test_forced_by_environment(cpp_build: Path) -> None:
    for name in supported(cpp_build / "kernel_select_test"):
        assert selected(cpp_build, name).stdout.strip() == name


def test_unknown_variant_is_refused(cpp_build: Path) -> None:
    result = selected(cpp_build, "sse9")
    names = ", ".join(supported(cpp_build / "kernel_select_test"))
    assert result.returncode == 2
    assert result.stderr == (
        "THIMBLE_KERNELS is 'sse9', which is not a kernel variant: "
        f"set it to one of {names}, or unset it\n"
    )


@pytest.mark.parametrize("case", ["random", "positive", "negative", "tiny", "zero", "outlier"])
def test_activations_as_torchao_quantizes(run: Run, tmp_path: Path, case: str) -> None:
    x = torch.randn(1, 300, generator=torch.Generator().manual_seed(1))
    x = {
        "random": x,
        "positive": x.abs() + 1,
        "negative": -x.abs() - 1,
        "tiny": x * 1e-38,
        "zero": x * 0,
        "outlier": x.index_fill(1, torch.tensor([7]), 1e4),
    }[case]
    (tmp_path / "x.bin").write_bytes(x.numpy().astype("<f4").tobytes())
    printed = run("kernel_quantize_test", "--print", tmp_path / "x.bin").stdout.split()

    bounds = {"quant_min": -128, "quant_max": 127}
    scale, zero_point = choose_qparams_affine(
        x, MappingType.ASYMMETRIC, (1, 300), torch.int8, zero_point_dtype=torch.int8, **bounds
    )
    q = quantize_affine(x, (1, 300), scale, zero_point, torch.int8, **bounds)
    assert float.fromhex(printed[0]) == scale.item()
    assert int(printed[1]) == zero_point.item()
    np.testing.assert_array_equal(np.array(printed[2:], dtype=np.int8), q.numpy()[0])


def test_the_benchmark_names_the_kernels_that_this_processor_has(cpp_build: Path) -> None:
    command = [cpp_build / "kernel_bench", "scalar", "sse9"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("kernel_bench: this processor has no kernels sse9; name some of:")
    assert told.stderr.endswith(" scalar\n")
