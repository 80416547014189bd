"""Where packed weights are kept until the file is written: in memory, or on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_DIRECTORY: ContextVar[Path | None] = ContextVar("directory", default=None)


@contextmanager
def spilling_to(directory: Path | None) -> Iterator[None]:
    """Within the block, packed weights are kept in files in a directory; with None everything stays
    in memory."""
    token = _DIRECTORY.set(directory)
    try:
        yield
    finally:
        _DIRECTORY.reset(token)


def spill_directory() -> Path | None:
    """Returns the directory of the block that this is called in."""
    return _DIRECTORY.get()
