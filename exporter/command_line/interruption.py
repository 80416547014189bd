"""Ends a command at any moment on Ctrl-C, SIGTERM and SIGHUP, and removes its temporary files.

A signal handler's exception is raised wherever the interpreter is. Library code that tries an
import, or a callback that cannot raise, may swallow it. So the signal is also recorded: the next
stage raises it again, and a failure after it is not reported as the command's own.
"""

import atexit
import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from exporter.command_line.streams import (
    STANDARD_OUTPUT,
    drop_standard_output,
    hold_standard_streams,
    lost,
)

# As the loader of libraries, PyTorch and the system say it.
_OF_MEMORY = re.compile("failed to map segment|an't allocate memory|Cannot allocate memory")
_noted: int | None = None  # the signal that came
_at_once = False  # whether nothing needs to be cleaned up
_said = ""


@contextmanager
def interruptible(sentence: str) -> Iterator[None]:
    """Ends the process with 128 + the signal's number if a signal arrives in the block.

    On Ctrl-C it prints the line `said`, on others nothing, as other programs do. A signal that the
    parent process ignored stays ignored. If standard output fails, what went well otherwise ends
    with 1, and without a line where its reader has gone.
    """
    global _said
    _said = sentence
    hold_standard_streams()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _come)
    try:
        yield
    except BaseException as error:
        if _noted is not None:
            _leave(_noted)
        if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
            _tell_of_output(error)
            os._exit(1)
        if (lack := _lack(error)) is not None:
            print(f"Error: {lack}.", file=sys.stderr)
            _end_quickly(1)
            raise SystemExit(1) from None
        try:
            sys.stdout.flush()
        except OSError as failure:
            lost.append(failure)
            drop_standard_output()
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            if lost and error.code == 0:
                _tell_of_output(lost[0])
                error.code = 1
            _end_quickly(error.code)
        raise


def _tell_of_output(error: OSError) -> None:
    if error.errno != errno.EPIPE:  # as behind `| head -1`
        print(f"Error: standard output cannot be written ({error.strerror}).", file=sys.stderr)


def _lack(error: BaseException) -> str | None:
    """What the machine lacks, a library or memory, if that is the error."""
    is_of_memory = isinstance(error, MemoryError) or _OF_MEMORY.search(str(error)) is not None
    advice = "free some memory, or raise its limit (ulimit -v)"
    if isinstance(error, ImportError):
        advice = advice if is_of_memory else "install the package again"
        return f"A library could not be loaded ({error}): {advice}"
    return f"There is not enough memory: {advice}" if is_of_memory else None


def _end_quickly(code: int) -> None:
    """Ends the process where PyTorch is imported, whose modules Python takes seconds to take down.
    What is registered for the end still runs; a thread that Python would wait for is waited for."""
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    if "torch" not in sys.modules or not all(thread.daemon for thread in others):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def say_from_now(sentence: str) -> None:
    """Changes the line that a Ctrl-C prints from now on."""
    global _said
    _said = sentence


@contextmanager
def saying(sentence: str) -> Iterator[None]:
    """Changes the line that a Ctrl-C in the block prints."""
    before = _said
    say_from_now(sentence)
    yield  # what a signal raises goes on to where the line is printed
    say_from_now(before)


@contextmanager
def nothing_to_clean_up() -> Iterator[None]:
    """Marks an import of large libraries, which a signal ends without an exception.

    Raises:
        ImportError: one cannot be loaded.
    """
    global _at_once
    _at_once = True
    try:
        yield
    except (OSError, MemoryError) as error:  # as ctypes raises
        raise ImportError(str(error) or "Cannot allocate memory") from error
    finally:
        _at_once = False


def raise_if_interrupted() -> None:
    """Raises a signal's exception again if a library swallowed it."""
    if _noted is not None:
        raise SystemExit(128 + _noted)


def _come(number: int, frame: FrameType | None) -> None:
    global _noted
    _noted = number
    if _at_once:
        _leave(number)
    raise SystemExit(128 + number)


def _leave(number: int) -> None:
    """Ends without Python's finalization, where another Ctrl-C would print tracebacks."""
    if number == signal.SIGINT:
        print(_said, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(128 + number)
