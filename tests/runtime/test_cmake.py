"""CMake on ExecuTorch from any install: what an install lacks is left out, and said."""

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from runtime.build import SOURCE_DIR

TOOLS = Path(sys.executable).parent
SOURCE_INSTALL = """
foreach(library {libraries})
  add_library(${{library}} INTERFACE IMPORTED GLOBAL)
  target_include_directories(
    ${{library}} INTERFACE "{package}/include"
                           "{package}/include/executorch/runtime/core/portable_type/c10")
  target_compile_definitions(${{library}} INTERFACE C10_USING_CUSTOM_GENERATED_MACROS)
  target_link_libraries(${{library}} INTERFACE "{package}/lib/libexecutorch.so")
endforeach()
"""


@pytest.fixture(scope="module")
def package() -> Path:
    spec = importlib.util.find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def source_install(directory: Path, package: Path, *libraries: str) -> Path:
    """An install as a build of ExecuTorch's source leaves it, its libraries under bare names."""
    text = SOURCE_INSTALL.format(libraries=" ".join(libraries), package=package)
    (directory / "executorch-config.cmake").write_text(text)
    return directory


def configure(build: Path, executorch: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [TOOLS / "cmake", "-G", "Ninja", "-S", SOURCE_DIR, "-B", build]
    command += [f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", f"-Dexecutorch_DIR={executorch}"]
    return subprocess.run([*command, *options], capture_output=True, text=True)


def test_the_wheel_has_everything(package: Path, tmp_path: Path) -> None:
    result = configure(tmp_path, package / "share" / "cmake")
    assert result.returncode == 0, result.stderr
    assert "-- XNNPACK: in\n-- ETDUMP: in\n" in result.stdout


@pytest.mark.check
def test_cmake_alone_finds_the_version(package: Path, tmp_path: Path) -> None:
    project = tomllib.loads((SOURCE_DIR.parents[1] / "pyproject.toml").read_text())["project"]
    configure(tmp_path, package / "share" / "cmake")
    assert f'THIMBLE_VERSION=\\"{project["version"]}\\"' in (tmp_path / "build.ninja").read_text()


@pytest.mark.check
def test_what_is_not_wanted_is_left_out(package: Path, tmp_path: Path) -> None:
    options = ["-DTHIMBLE_XNNPACK=OFF", "-DTHIMBLE_ETDUMP=OFF"]
    result = configure(tmp_path, package / "share" / "cmake", *options)
    assert result.returncode == 0, result.stderr
    for name in ("XNNPACK", "ETDUMP"):
        assert f"-- {name}: left out, as THIMBLE_{name}=OFF says\n" in result.stdout


@pytest.mark.check
def test_what_is_missing_is_left_out(package: Path, tmp_path: Path) -> None:
    libraries = ["executorch", "extension_module_static", "extension_tensor"]
    install = source_install(tmp_path, package, *libraries)
    result = configure(tmp_path / "build", install)
    assert result.returncode == 0, result.stderr
    missing = f"left out, the ExecuTorch of {install} has no"
    assert f"-- XNNPACK: {missing} backend_xnnpack\n" in result.stdout
    assert f"-- ETDUMP: {missing} etdump\n" in result.stdout


@pytest.mark.check
def test_an_install_that_cannot_do(package: Path, tmp_path: Path) -> None:
    install = source_install(tmp_path, package, "executorch")
    result = configure(tmp_path / "build", install)
    assert result.returncode != 0
    sentence = " ".join(result.stderr.split())
    assert f"The ExecuTorch of {install} has no runtime with the module and tensor" in sentence
    assert "build it with EXECUTORCH_BUILD_EXTENSION_MODULE=ON" in sentence


@pytest.mark.soak
def test_the_least_install_runs_the_cpu_delegate(
    package: Path, tmp_path: Path, cpp_build: Path, stories_cpu_pte: Path, stories_pte: Path
) -> None:
    libraries = ["executorch", "extension_module_static", "extension_tensor"]
    build = tmp_path / "build"
    assert configure(build, source_install(tmp_path, package, *libraries)).returncode == 0
    built = subprocess.run([TOOLS / "ninja", "-C", build, "runner"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout

    def run(runner: Path, model: Path, *options: str) -> subprocess.CompletedProcess[str]:
        command = [runner, model, "-p", "Once", "-n", "20", "--threads", "1", *options]
        return subprocess.run(command, capture_output=True, text=True)

    result = run(build / "runner", stories_cpu_pte)
    assert result.returncode == 0, result.stderr
    assert result.stdout == run(cpp_build / "runner", stories_cpu_pte).stdout != ""
    refused = run(build / "runner", stories_pte)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"runner: {stories_pte} runs on XnnpackBackend, which this runner does not include: "
        "export it with --delegate cpu\n"
    )
    refused = run(build / "runner", stories_cpu_pte, "--etdump", str(tmp_path / "run.etdp"))
    assert refused.returncode == 2
    assert refused.stderr.startswith("runner: this runner was built without ETDump")
