"""Writes files such that a failure keeps the previous file."""

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from devtools.errors import BadRequest, DevtoolsError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk, quota or limit on a file's size
_DEVICES = (Path("/dev"), Path("/dev/fd"))  # also of links to files, such as /dev/stdout
_KEPT = 40  # characters of a name: the temporary one is then never too long


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Provides a temporary path next to `path`, with its suffix, which replaces `path` if the block
    succeeds; on failure it is removed.

    Raises:
        BadRequest: the place cannot be written.
        DevtoolsError: the disk is full.
    """
    check_writable(path)
    temporary = path.with_name(f".{os.getpid()}.{path.name[-_KEPT:]}")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise DevtoolsError(
            f"The disk cannot store more ({error.strerror}) and {path} was not written; free some "
            "space or choose another place."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def using_temporary_files() -> Iterator[None]:
    """Marks a block that needs room in the directory for temporary files.

    Raises:
        DevtoolsError: it is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise DevtoolsError(
            f"The disk of {tempfile.gettempdir()} cannot store more ({error.strerror}); free some "
            "space, or name another directory for temporary files with TMPDIR."
        ) from None


def check_writable(path: Path) -> None:
    """Checks before the work that its result can be written.

    Raises:
        BadRequest: it cannot.
    """
    if os.path.isdir(path):  # for impossible names os.path returns False, pathlib raises
        raise BadRequest(f"{path} is a directory; name a file to write.")
    if os.path.exists(path) and not os.path.isfile(path) or path.absolute().parent in _DEVICES:
        raise BadRequest(f"{path} is a device or a pipe; name a file to write.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadRequest(
            f"{path} cannot be written; name a file in an existing, writable directory."
        )
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BadRequest(
            f"{path} cannot be written ({error.strerror}); name another file."
        ) from None


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Checks before the work that its results can be written, each to its own file.

    Args:
        outputs, inputs: the files that are written and read; None for those not requested.

    Raises:
        BadRequest: one cannot be written, is read as well, or is named twice.
    """
    read = [path for path in inputs if path is not None]
    written: list[Path] = []
    for path in outputs:
        if path is None:
            continue
        check_writable(path)
        if any(_are_one(path, other) for other in read):
            raise BadRequest(f"{path} is also an input; name another file to write.")
        if any(_are_one(path, other) for other in written):
            raise BadRequest(f"{path} is used for two results; name a file for each.")
        written.append(path)


def _are_one(a: Path, b: Path) -> bool:
    if os.path.exists(a) and os.path.exists(b):
        return os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)
