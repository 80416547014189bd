"""The C++ compiles where a size has 32 bits, without a conversion that loses some."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from runtime.build import SOURCE_DIR, find_zig
from runtime.errors import BuildError

FOLDERS = ["core", "delegate", "platform/posix", "runner", "tokenizer"]
# On libraries that only the wheel has, and on Metal, which no system of 32 bits has.
ABSENT = ["model/xnnpack.cpp", "model/recorder.cpp", "delegate/metal/*.cpp"]
TARGET = ["-target", "arm-linux-musleabihf"]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wshorten-64-to-32"]


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in (SOURCE_DIR / folder).rglob("*.cpp")]
    return sorted(
        path
        for path in found
        if not any(path.match(absent) for absent in ABSENT) and "shim" not in path.parts
    )


def compile_for_arm(source: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    spec = importlib.util.find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations
    headers = Path(next(iter(spec.submodule_search_locations))) / "include"
    try:
        zig = find_zig()
    except BuildError as error:
        pytest.skip(str(error))
    c10 = headers / "executorch" / "runtime" / "core" / "portable_type" / "c10"
    command = [zig, "c++", *TARGET, "-std=c++17", "-c", "-O0", *WARNINGS, f"-I{SOURCE_DIR}"]
    command += ["-isystem", headers, "-isystem", c10, "-DC10_USING_CUSTOM_GENERATED_MACROS"]
    command += ['-DTHIMBLE_VERSION=""', '-DTHIMBLE_FEATURES=""', '-DEXECUTORCH_VERSION=""']
    command += ["-o", directory / "object.o", source]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.soak
def test_32_bits(tmp_path: Path) -> None:
    assert len(sources()) > 60
    for source in sources():
        result = compile_for_arm(source, tmp_path)
        assert result.returncode == 0, result.stderr


def test_a_lost_half_is_found(tmp_path: Path) -> None:
    source = tmp_path / "narrow.cpp"
    source.write_text("#include <cstddef>\nsize_t narrow(unsigned long long all) { return all; }\n")
    result = compile_for_arm(source, tmp_path)
    assert result.returncode != 0 and "loses integer precision" in result.stderr
