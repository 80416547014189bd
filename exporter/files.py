"""Writing files so that a failure leaves what was there before."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import overload

from exporter.errors import ExportError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk, quota or limit on a file's size


@overload
@contextmanager
def replacing(path: Path) -> Iterator[Path]: ...
@overload
@contextmanager
def replacing(path: None) -> Iterator[None]: ...
@contextmanager
def replacing(path: Path | None) -> Iterator[Path | None]:
    """Gives a temporary path beside `path`, which takes its place if the block succeeds.

    Checks before the block that the place can be written. On failure or interruption the
    temporary file is removed and `path` is as it was; what processes that were killed left of
    theirs is removed too. None gives None.

    Raises:
        ExportError: the place cannot be written, or the disk is full.
    """
    if path is None:
        yield None
        return
    if os.path.isdir(path):  # answers no where pathlib raises, for impossible names
        raise ExportError(f"{path} is a directory; name a file to write.")
    if os.path.exists(path) and not os.path.isfile(path) or path.is_relative_to("/dev"):
        raise ExportError(f"{path} is a device or a pipe; name a file to write.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.touch()
    except OSError as error:
        raise ExportError(
            f"{path} cannot be written ({error.strerror}); name a file in a directory that exists "
            "and can be written."
        ) from None
    _remove_abandoned(path)
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise ExportError(
            f"The disk takes no more ({error.strerror}) and nothing was written; free some space "
            "or name another place."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Removes temporary files of `path` whose process no longer runs."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.([1-9]\d*)\.tmp")
    others: list[str] = []
    with suppress(OSError):  # of a directory that cannot be listed
        others = os.listdir(path.parent)
    for other in others:
        match = pattern.fullmatch(other)
        if match is not None and not _runs(int(match[1])):
            with suppress(OSError):
                (path.parent / other).unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user; no number of a process
        return True
    return True
