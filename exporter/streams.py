"""Standard streams that may be closed, or whose reader may have gone, at any moment."""

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TextIO

STANDARD_OUTPUT = "standard output"
_MESSAGE = "backslashreplace"  # what standard error does with a character that it cannot write


def hold_standard_streams() -> None:
    """Makes the three streams safe to use, however the process was started.

    A file that is opened never becomes a standard stream: what was closed is held by a file that
    takes nothing. What standard error does not take is dropped, so that a message never ends the
    work; what standard output does not take is an OSError whose `filename` is STANDARD_OUTPUT.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError as error:
            if error.errno == errno.EBADF:
                os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number, which is this one
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout, "strict")
    sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr, _MESSAGE)
    sys.__stderr__ = sys.stderr  # type: ignore[misc]


def outlive_reader() -> None:
    """From now on standard output drops what nobody takes, because its reader has gone or because
    it was closed: the work goes on and ends with its own code. A full disk is still an error."""
    sys.stdout = _text(_Unread(1, "w", closefd=False), sys.stdout, "strict")


def messages_to(number: int) -> TextIO:
    """A stream that owns an open file and drops what the file does not take."""
    return _text(_Messages(number, "w"), None, _MESSAGE)


def drop_standard_output() -> None:
    """Lets go of what standard output did not take, which else fails again when Python ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    with suppress(OSError):
        sys.stdout.flush()


class _Output(io.FileIO):
    """Says of an error that it is standard output's."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from None


class _Unread(_Output):
    """Drops what has no reader."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EBADF):
                raise
            return memoryview(data).nbytes  # type: ignore[arg-type]


class _Messages(io.FileIO):
    """Never fails to write."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def _text(raw: io.FileIO, like: TextIO | None, errors: str) -> io.TextIOWrapper:
    """Text over a file, by the encoding of the stream whose place it takes."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if like is None else like.encoding,
        errors=errors if like is None else like.errors,
        line_buffering=errors == _MESSAGE or raw.isatty(),
    )
