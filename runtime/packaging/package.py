"""Makes a wheel with compiled programs, for this machine or Arm: installing needs no compiler."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runtime.build import (
    CHECKOUT,
    PRODUCTS,
    Progress,
    build,
    configured_with,
    find_tool,
    wheel_directory,
)
from runtime.errors import BuildError
from runtime.packaging.licences import copy_executorch_licence, with_licences
from runtime.packaging.platform_tag import platform_tag
from runtime.packaging.wheel import fetch_wheel

PACKAGES = ("exporter", "quant", "delegates", "runtime", "devtools")
# What a wheel may be for: the preset of its build, and the platform; None: this machine's.
TARGETS: dict[str, tuple[str, str | None]] = {
    "host": ("default", None),
    "aarch64": ("aarch64", "linux-aarch64"),
}
_NOTHING = ("build.ninja",)  # compiles nothing: what is missing is told in a second


def package(
    directory: Path,
    target: str = "host",
    partial: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Builds the programs and writes a wheel with them to a directory, which exists.

    The programs use the executorch package that is installed beside them.

    Args:
        target: of TARGETS.
        partial: makes it also where a library that it should have copies of was not found.
        progress: of the build.

    Raises:
        BuildError: this is not a checkout, such a library was not found, or the compiler or pip
            failed.
    """
    if not (CHECKOUT / "pyproject.toml").is_file():
        raise BuildError("a wheel can only be made from a checkout; clone the repository.")
    preset, platform = TARGETS[target]
    if target == "aarch64":
        fetch_wheel(wheel_directory())
    configured = build(preset, _NOTHING, progress=progress, search=True).directory
    lacks = configured_with(configured).get("THIMBLE_WHEEL_LACKS", "")
    if lacks and not partial:
        raise BuildError(
            f"the wheel would lack {', '.join(lacks.split(';'))}: install the packages in brackets "
            "(their names are Debian's), or make it so with --partial."
        )
    built = build(preset, PRODUCTS, progress=progress).directory
    with tempfile.TemporaryDirectory() as temporary:
        source, written = Path(temporary) / "thimble", Path(temporary) / "wheel"
        source.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(CHECKOUT / name, source)
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "bin")
            shutil.copytree(CHECKOUT / name, source / name, ignore=ignored)
        install: list[str | Path] = ["--install", built, "--component", "wheel", "--strip"]
        programs = source / "runtime" / "bin"
        _run([find_tool("cmake"), *install, "--prefix", programs])
        copy_executorch_licence(programs)
        project = source / "pyproject.toml"
        licences = programs.glob("LICENSE-*")
        project.write_text(with_licences(project.read_text("utf-8"), licences), "utf-8")
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
        tag = platform_tag(programs.iterdir(), platform)
        option = f"--config-settings=--build-option=--plat-name={tag}"
        _run([*pip, option, "--wheel-dir", str(written), str(source)])
        (wheel,) = written.glob("*.whl")
        return Path(shutil.move(wheel, directory / wheel.name))


def _run(command: Sequence[str | Path]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        output = "\n".join((result.stdout + result.stderr).strip().splitlines()[-20:])
        raise BuildError(f"{Path(command[0]).name} failed with code {result.returncode}:\n{output}")
