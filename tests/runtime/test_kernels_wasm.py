"""The CPU kernels as WebAssembly, every variant against scalar, in node."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.kernel_programs import PROGRAMS, SOURCES
from support.node import find_node, wasi_command

from runtime.build import SOURCE_DIR, find_zig
from runtime.errors import BuildError

pytestmark = pytest.mark.soak
BUILD = SOURCE_DIR.parents[1] / "build"
VARIANTS = {"simd": ["wasm_simd", "scalar"], "relaxed": ["wasm_relaxed", "wasm_simd", "scalar"]}
PAIRS = "wasm_pairs"  # on x86 without AVX-VNNI


@pytest.fixture(scope="module", params=VARIANTS)
def programs(request: pytest.FixtureRequest) -> Path:
    """The kernels and their tests by themselves, with and without relaxed SIMD."""
    find_node()
    try:
        zig = find_zig()
    except BuildError as error:
        pytest.skip(str(error))
    directory = BUILD / f"wasm32-kernels-{request.param}"
    tools = Path(sys.executable).parent
    options = {
        "CMAKE_TOOLCHAIN_FILE": SOURCE_DIR / "cmake" / "wasm32.cmake",
        "CMAKE_MAKE_PROGRAM": tools / "ninja",
        "THIMBLE_ZIG": zig,
        "THIMBLE_WASM_RELAXED": "ON" if request.param == "relaxed" else "OFF",
    }
    configure = [tools / "cmake", "-G", "Ninja", "-S", SOURCES]
    configure += ["-B", directory, *(f"-D{name}={value}" for name, value in options.items())]
    for command in (configure, [tools / "ninja", "-C", directory]):
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    return directory


def run(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*wasi_command(program), *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(programs: Path, program: str) -> None:
    result = run(programs / program)
    assert result.returncode == 0, result.stderr


def test_the_variants(programs: Path) -> None:
    """Those that the module was built with, best first; each can be forced."""
    expected = VARIANTS[programs.name.rpartition("-")[2]]
    select = programs / "kernel_select_test"
    supported = run(select, "--supported").stdout.split()
    assert supported in (expected, [PAIRS, *expected])
    for name in supported:
        assert run(select, "--selected", THIMBLE_KERNELS=name).stdout.strip() == name
