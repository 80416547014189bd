"""Standard streams that may be closed, or lose their reader, at any moment."""

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TextIO

STANDARD_OUTPUT = "standard output"
lost: list[OSError] = []  # failures of standard output that the work went on after
_MESSAGE = "backslashreplace"  # how standard error writes characters that it cannot encode


def hold_standard_streams() -> None:
    """Makes the three streams safe to use, no matter how the process was started.

    A closed stream is replaced by an empty file, so that no file opened later becomes a standard
    stream. If standard error cannot be written, messages are dropped and the work continues. If
    standard output cannot be written, the OSError has STANDARD_OUTPUT as its `filename`.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError as error:
            if error.errno == errno.EBADF:
                os.open(os.devnull, os.O_RDONLY)  # gets the lowest free number, which is this one
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout, "strict")
    sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr, _MESSAGE)
    sys.__stderr__ = sys.stderr  # type: ignore[misc]


def outlive_reader() -> None:
    """Makes standard output drop its data from now on if its reader has gone or it was closed.

    The work continues, and `lost` knows. A full disk is still an error. A stream that someone has
    put in its place is left as it is.
    """
    try:
        if sys.stdout.fileno() != 1:
            return
    except (OSError, ValueError):  # it has no file
        return
    with suppress(OSError):
        sys.stdout.flush()
    sys.stdout = _text(_Unread(1, "w", closefd=False), sys.stdout, "strict")


def messages_to(number: int) -> TextIO:
    """Returns a stream that owns an open file and ignores errors of writing."""
    return _text(_Messages(number, "w"), None, _MESSAGE)


def drop_standard_output() -> None:
    """Drops unwritten data of standard output, which would fail again when Python ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    with suppress(OSError):
        sys.stdout.flush()


class _Output(io.FileIO):
    """Marks its errors as standard output's."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from None


class _Unread(_Output):
    """Drops data that has no reader."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EBADF):
                raise
            lost.append(error)
            return memoryview(data).nbytes  # type: ignore[arg-type]


class _Messages(io.FileIO):
    """Never fails to write."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def _text(raw: io.FileIO, like: TextIO | None, errors: str) -> io.TextIOWrapper:
    """Returns a text stream over a file, with the encoding of the stream that it replaces."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if like is None else like.encoding,
        errors=errors if like is None else like.errors,
        line_buffering=errors == _MESSAGE or raw.isatty(),
    )
