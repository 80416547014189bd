"""Makes a wheel for this platform with compiled programs: installing it needs no compiler."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runtime.build import BUILD_DIR, CHECKOUT, PRODUCTS, build, find_tool
from runtime.errors import BuildError
from runtime.packaging.licences import copy_executorch_licence, with_licences
from runtime.packaging.platform_tag import platform_tag

PACKAGES = ("exporter", "quant", "delegates", "runtime", "devtools")


def package(directory: Path) -> Path:
    """Builds the programs and writes a wheel with them to a directory, which exists.

    The programs use the installed executorch package.

    Raises:
        BuildError: this is not a checkout, or the compiler or pip failed.
    """
    if not (CHECKOUT / "pyproject.toml").is_file():
        raise BuildError("a wheel can only be made from a checkout; clone the repository.")
    build(targets=PRODUCTS)
    with tempfile.TemporaryDirectory() as temporary:
        source, written = Path(temporary) / "thimble", Path(temporary) / "wheel"
        source.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(CHECKOUT / name, source)
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "bin")
            shutil.copytree(CHECKOUT / name, source / name, ignore=ignored)
        install: list[str | Path] = ["--install", BUILD_DIR, "--component", "wheel", "--strip"]
        programs = source / "runtime" / "bin"
        _run([find_tool("cmake"), *install, "--prefix", programs])
        copy_executorch_licence(programs)
        project = source / "pyproject.toml"
        licences = programs.glob("LICENSE-*")
        project.write_text(with_licences(project.read_text("utf-8"), licences), "utf-8")
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
        option = f"--config-settings=--build-option=--plat-name={platform_tag(programs.iterdir())}"
        _run([*pip, option, "--wheel-dir", str(written), str(source)])
        (wheel,) = written.glob("*.whl")
        return Path(shutil.move(wheel, directory / wheel.name))


def _run(command: Sequence[str | Path]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        output = "\n".join((result.stdout + result.stderr).strip().splitlines()[-20:])
        raise BuildError(f"{Path(command[0]).name} failed with code {result.returncode}:\n{output}")
