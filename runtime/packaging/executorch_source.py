"""ExecuTorch's source, and the flatbuffers to compile it with, for systems without a wheel."""

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import BuildError

MARK = Path("runtime") / "executor" / "method.cpp"
SUBMODULE = Path("third-party") / "flatbuffers" / "include"
NUMBER = re.compile(r"#define FLATBUFFERS_VERSION_(?:MAJOR|MINOR|REVISION) (\d+)")


@dataclass(frozen=True)
class ExecutorchSource:
    """What is compiled, and with which flatbuffers."""

    directory: Path
    flatc: Path  # flatbuffers' compiler, which runs here
    flatbuffers: Path  # its C++ headers, of the same version


def find_source(directory: Path) -> ExecutorchSource:
    """Checks a clone of ExecuTorch, and finds a flatbuffers compiler with headers of its version:
    the headers of the clone's submodule or of this environment, the compiler of ExecuTorch's wheel
    or of this environment.

    Raises:
        BuildError: the directory is not ExecuTorch's source, or no compiler fits any headers.
    """
    directory = directory.resolve()
    if not (directory / MARK).is_file():
        raise BuildError(f"{directory} is not ExecuTorch's source: it has no {MARK}")
    compilers = {version: flatc for flatc in _compilers() if (version := _version_of(flatc))}
    headers = [directory / SUBMODULE, Path(sysconfig.get_path("platlib")) / "include"]
    folders = {version: folder for folder in headers if (version := _version_in(folder))}
    for version, folder in folders.items():
        if version in compilers:
            return ExecutorchSource(directory, compilers[version], folder)
    raise BuildError(
        f"flatbuffers' compiler has the version {' or '.join(compilers) or 'none'}, its C++ "
        f"headers {' or '.join(folders) or 'none'}: run git submodule update --init "
        f"{SUBMODULE.parent} in {directory}"
    )


def _compilers() -> Iterator[Path]:
    spec = importlib.util.find_spec("executorch")
    for folder in spec.submodule_search_locations or [] if spec else []:
        yield Path(folder) / "data" / "bin" / "flatc"
    yield Path(sys.executable).parent / "flatc"
    if on_path := shutil.which("flatc"):
        yield Path(on_path)


def _version_of(flatc: Path) -> str | None:
    if not flatc.is_file():
        return None
    result = subprocess.run([flatc, "--version"], capture_output=True, text=True, check=False)
    words = result.stdout.split()
    return words[-1] if result.returncode == 0 and words else None


def _version_in(headers: Path) -> str | None:
    base = headers / "flatbuffers" / "base.h"
    if not base.is_file():
        return None
    return ".".join(NUMBER.findall(base.read_text(encoding="utf-8")))
