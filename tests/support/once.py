"""What all processes of a test run share, made by the first that needs it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """A file in a directory of that name.

    Args:
        make: gets the new directory; returns the file. What it writes is read by other processes,
            so nothing may change it later.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # each process has a directory of its own below the run's
    with FileLock(root / f"{name}.lock"):
        directory, told = root / name, root / f"{name}.path"
        if not told.exists():
            directory.mkdir(exist_ok=True)
            told.write_text(str(make(directory)), encoding="utf-8")
        return Path(told.read_text(encoding="utf-8"))
