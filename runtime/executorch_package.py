"""The executorch package of the running Python, whose libraries ours are linked to.

The C++ was told where they lie when it was built; an installed wheel expects them beside it. The
package may lie elsewhere by now, as for a virtual environment that sees the system's packages.
"""

import ctypes
import importlib.util
import os
from functools import cache
from pathlib import Path

from runtime.errors import BuildError

_SEARCHED = "LD_LIBRARY_PATH"  # by the loader, before the places that a program names


def find_executorch() -> Path:
    """Returns the package's directory.

    Raises:
        BuildError: it is not installed.
    """
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError("the executorch package is not installed: pip install executorch==1.5.1")
    return Path(next(iter(spec.submodule_search_locations)))


def show_programs_executorch() -> None:
    """Lets the programs that this process starts, or becomes, find the package's libraries.

    Raises:
        BuildError: it is not installed.
    """
    folder = str(find_executorch() / "lib")
    searched = os.environ.get(_SEARCHED)
    if searched is None or folder not in searched.split(":"):
        os.environ[_SEARCHED] = folder if not searched else f"{folder}:{searched}"


def open_beside_executorch(path: Path) -> ctypes.CDLL:
    """Loads one of our libraries, after those of the package that it needs.

    Raises:
        BuildError: the package is not installed.
        OSError: the library cannot be loaded.
    """
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        _load_executorch()
        return ctypes.CDLL(str(path))


@cache
def _load_executorch() -> None:
    """Loads the libraries; the loader then knows them by their names."""
    folder = find_executorch() / "lib"
    for component in ("", "_threadpool", "_kernels_optimized", "_backend_xnnpack", "_etdump"):
        ctypes.CDLL(str(folder / f"libexecutorch{component}.so"))
