"""Writing files so that a failure leaves what was there before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devtools.errors import BadRequest


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary path beside `path`, with its suffix, which takes its place if the block
    succeeds; on failure it is removed."""
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Finds out before the work whether its result can be written.

    Raises:
        BadRequest: it cannot.
    """
    if path.is_dir():
        raise BadRequest(f"{path} is a directory; name a file to write.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadRequest(
            f"{path} cannot be written; name a file in a directory that exists and can be written."
        )
