"""Writes files such that a failure keeps the previous file."""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import overload

from exporter.errors import ExportError

_OURS = (".pte", ".etrecord")  # the ends of what an export writes
# Of other formats: what reads such a file goes by its name, and no other name is refused.
_FOREIGN = (".gguf", ".safetensors", ".onnx", ".pt", ".pth", ".py", ".json")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk, quota or limit on a file's size


@overload
@contextmanager
def replacing(path: Path) -> Iterator[Path]: ...
@overload
@contextmanager
def replacing(path: None) -> Iterator[None]: ...
@contextmanager
def replacing(path: Path | None) -> Iterator[Path | None]:
    """Provides a temporary path next to `path`, which replaces `path` if the block succeeds.

    Checks before the block that the place can be written. On failure or interruption it removes the
    temporary file and does not change `path`. It also removes temporary files of killed processes.
    For None it provides None.

    Raises:
        ExportError: the place cannot be written, or the disk is full.
    """
    if path is None:
        yield None
        return
    temporary = _touch_temporary(path)
    _remove_abandoned(path)
    try:
        yield temporary
        _rename(temporary, path)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise ExportError(
            f"The disk of {path} cannot store more ({error.strerror}) and nothing was written; "
            "free some space or choose another place."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def _rename(temporary: Path, path: Path) -> None:
    try:
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
        raise ExportError(
            f"{path} cannot be written ({error.strerror}) and nothing was changed; choose another "
            "place."
        ) from None


def check_outputs(
    out: Path | None, etrecord: Path | None, inputs: Iterable[str | Path] = ()
) -> None:
    """Checks that both files of an export can be written; None for one that is not requested.

    Args:
        inputs: what the export reads: files, directories, and names that are neither.

    Raises:
        ExportError: a place cannot be written, both are the same, or one is an input.
    """
    paths = [path for path in (out, etrecord) if path is not None]
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise ExportError(f"{out} is both --out and --etrecord; name two different files.")
    for path in paths:
        _touch_temporary(path).unlink()
        for given in inputs:
            if _is_of(path, str(given)):
                raise ExportError(
                    f"{path} is an input of this export, which would overwrite it; name another "
                    "file to write."
                )


def check_endings(out: Path | None, etrecord: Path | None) -> None:
    """Raises ExportError if a file of an export has the ending of another format."""
    _check_ending("--out", out, *_OURS)
    _check_ending("--etrecord", etrecord, *reversed(_OURS))


def _check_ending(option: str, path: Path | None, end: str, other: str) -> None:
    """Raises ExportError if a file has the ending of another kind; any other name is fine."""
    if path is not None and path.suffix.lower() in (*_FOREIGN, other):
        raise ExportError(
            f"{option} {path} has the ending of another kind of file; name it "
            f"{path.with_suffix(end).name}."
        )


def _is_of(path: Path, given: str) -> bool:
    """Whether a file that exists is an input, or lies in one that is a directory; an earlier
    export's file there is not one."""
    if not path.exists() or not os.path.exists(given):
        return False
    if os.path.isdir(given):
        directory = Path(os.path.realpath(path.parent))
        return path.suffix not in _OURS and directory.is_relative_to(os.path.realpath(given))
    return path.samefile(given)


def _touch_temporary(path: Path) -> Path:
    """Creates the temporary file next to `path`; raises ExportError if that is not possible."""
    if os.path.isdir(path):  # for impossible names os.path returns False, pathlib raises
        raise ExportError(f"{path} is a directory; name a file to write.")
    if os.path.exists(path) and not os.path.isfile(path) or _is_among_devices(path):
        raise ExportError(f"{path} is a device or a pipe; name a file to write.")
    try:
        str(path).encode()
    except UnicodeEncodeError:  # which libraries that read the file back do not take
        raise ExportError(f"{str(path)!r} is not UTF-8; name a file that is.") from None
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.touch()
    except OSError as error:
        raise ExportError(
            f"{path} cannot be written ({error.strerror}); name a file in an existing, writable "
            "directory."
        ) from None
    return temporary


def _is_among_devices(path: Path) -> bool:
    """Whether a file would lie beside devices, as one in /dev does, but not one in /dev/shm."""
    with suppress(OSError):
        return path.is_relative_to("/dev") and path.parent.stat().st_dev == os.stat("/dev").st_dev
    return False


def _remove_abandoned(path: Path) -> None:
    """Removes temporary files of `path` whose process no longer runs."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.([1-9]\d*)\.tmp")
    others: list[str] = []
    with suppress(OSError):  # the directory cannot be listed
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
    except (OSError, OverflowError):  # another user's process; not a process id
        return True
    return True
