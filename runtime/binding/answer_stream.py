"""Text from the C++ library as it is generated, as a Python iterator."""

import ctypes
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

from runtime.binding.c_arguments import text_of
from runtime.binding.library import ERROR_SIZE, TextCallback
from runtime.errors import RunnerError


class Special(str):
    """A special token in an answer, by its text."""


class Pieces:
    """Text that one thread puts in, piece by piece, and another takes out."""

    def __init__(self) -> None:
        # The last item, None or an error, stays in it: who comes later ends there too.
        self._pieces: queue.SimpleQueue[str | Exception | None] = queue.SimpleQueue()

    def put(self, piece: str) -> None:
        """Adds a piece."""
        self._pieces.put(piece)

    def end(self, error: Exception | None) -> None:
        """Ends the text; an error is raised there."""
        self._pieces.put(error)

    def __iter__(self) -> Iterator[str]:
        while isinstance(piece := self._pieces.get(), str):
            yield piece
        self._pieces.put(piece)
        if piece is not None:
            raise piece

    def poll(self) -> tuple[list[str], bool]:
        """Takes what is there without waiting; returns it, and whether the text has ended."""
        taken: list[str] = []
        while not self._pieces.empty():
            piece = self._pieces.get()
            if isinstance(piece, str):
                taken.append(piece)
                continue
            self._pieces.put(piece)
            if piece is None:
                return taken, True
            if taken:  # before an error, it is not lost
                break
            raise piece
        return taken, False


def piece_of(text: Any, size: int) -> str:
    """What the library gives to a callback for text."""
    return ctypes.string_at(text, size).decode("utf-8", "replace")


# Receives the callback for text and the buffer for an error; 0 on success.
Call = Callable[[Any, "ctypes.Array[ctypes.c_char]"], int]


def stream(
    call: Call, goes_on: Callable[[], bool], interrupt: Callable[[], None], done: Callable[[], None]
) -> Generator[str, None, None]:
    """Makes a call of the library in a thread of its own; yields its text, piece by piece.

    Args:
        wanted: whether the text is still wanted; closing the iterator ends it too.
        interrupt: ends the call soon, also while it reads a prompt; is called when the iterator is
            closed early, perhaps after the call has ended.
        done: is called once, when the call has ended or could not begin.

    Raises:
        RunnerError: the call fails.
    """
    pieces = Pieces()
    stop = threading.Event()

    def take(text: Any, size: int, _context: Any) -> int:
        pieces.put(piece_of(text, size))
        # Python waits for this thread when it exits: an answer that nobody reads must end.
        return int(threading.main_thread().is_alive() and not stop.is_set() and goes_on())

    def work() -> None:
        error = ctypes.create_string_buffer(ERROR_SIZE)
        failed = call(TextCallback(take), error)
        done()
        pieces.end(RunnerError(text_of(error)) if failed else None)

    worker = threading.Thread(target=work, name="thimble-generate")
    try:
        worker.start()
    except BaseException:
        done()
        raise
    try:
        yield from pieces
    finally:
        stop.set()
        if worker.is_alive():
            interrupt()
        worker.join()
