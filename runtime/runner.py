"""A model in memory that streams text: the C++ runner behind a small class."""

import ctypes
import json
import os
import queue
import secrets
import threading
from collections.abc import Generator
from typing import Any

from runtime.errors import RunnerError
from runtime.library import ERROR_SIZE, Options, TextCallback, library

MAX_COUNT = 2**31 - 1
MAX_THREADS = 256


class Runner:
    """A `.pte` that `python -m exporter` wrote, loaded and ready.

    All runners of a process share one pool of threads, as large as the last one asked for.

    Args:
        path: the file.
        threads: 1 to 256; None: the cores worth using.

    Raises:
        RunnerError: the file cannot be used, or the C++ is not built.
    """

    def __init__(self, path: str | os.PathLike[str], threads: int | None = None) -> None:
        self._handle: int | None = None
        self._busy = threading.Lock()  # held by the iterator of the answer in progress
        self._worker: threading.Thread | None = None
        self._stop = threading.Event()
        if threads is not None:
            _check("threads", threads, 1, MAX_THREADS)
        self._library = library()
        error = ctypes.create_string_buffer(ERROR_SIZE)
        handle = self._library.thimble_load(os.fsencode(path), threads or 0, error, ERROR_SIZE)
        if not handle:
            raise RunnerError(_text(error))
        self._handle = handle

    def generate(
        self,
        prompt: str,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int | None = None,
    ) -> Generator[str, None, None]:
        """Continues the prompt; yields text as it comes, whole characters.

        Closing the iterator ends the generation. Options as those of the command line; None:
        until the model ends or the context is full; another seed every time.

        Raises:
            RunnerError: an option out of range; while iterating: a prompt that does not fit the
                context, a model that fails, or a runner that is closed or busy.
        """
        if max_new_tokens is not None:
            _check("max_new_tokens", max_new_tokens, 1, MAX_COUNT)
        _check("temperature", temperature, 0, 100)
        _check("top_k", top_k, 0, MAX_COUNT)
        _check("top_p", top_p, 0, 1)
        _check("min_p", min_p, 0, 1)
        if seed is None:
            seed = secrets.randbits(64)
        _check("seed", seed, 0, 2**64 - 1)
        options = Options(max_new_tokens or 0, temperature, top_k, top_p, min_p, seed)
        return self._stream(prompt.encode("utf-8", "replace"), options)

    def _stream(self, prompt: bytes, options: Options) -> Generator[str, None, None]:
        handle = self._open_handle()
        if not self._busy.acquire(blocking=False):
            raise RunnerError("this Runner is generating already: finish or close its iterator")
        pieces: queue.SimpleQueue[str | RunnerError | None] = queue.SimpleQueue()
        stop = self._stop = threading.Event()

        def take(text: Any, size: int, _context: Any) -> int:
            pieces.put(ctypes.string_at(text, size).decode("utf-8", "replace"))
            # Python waits for this thread when it exits: an answer nobody reads must not go on.
            return int(threading.main_thread().is_alive() and not stop.is_set())

        def work() -> None:
            error = ctypes.create_string_buffer(ERROR_SIZE)
            failed = self._library.thimble_generate(
                handle,
                prompt,
                len(prompt),
                ctypes.byref(options),
                TextCallback(take),
                None,
                error,
                ERROR_SIZE,
            )
            pieces.put(RunnerError(_text(error)) if failed else None)

        worker = self._worker = threading.Thread(target=work, name="thimble-generate")
        worker.start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, RunnerError):
                    raise piece
                yield piece
        finally:
            stop.set()
            worker.join()
            self._busy.release()

    @property
    def stats(self) -> dict[str, str | int | float]:
        """The last answer's statistics, with the keys of the command line's --json."""
        return json.loads(self._library.thimble_stats(self._open_handle()))

    def verify(self) -> None:
        """Checks every byte of the file, weights included.

        Raises:
            RunnerError: it is damaged; the message says where.
        """
        error = ctypes.create_string_buffer(ERROR_SIZE)
        if self._library.thimble_verify(self._open_handle(), error, ERROR_SIZE):
            raise RunnerError(_text(error))

    def close(self) -> None:
        """Ends an answer in progress and frees the model."""
        self._stop.set()
        if self._worker is not None:
            self._worker.join()
        if self._handle is not None:
            self._library.thimble_free(self._handle)
        self._handle = None

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _open_handle(self) -> int:
        if self._handle is None:
            raise RunnerError("this Runner is closed: load the model again")
        return self._handle


def _text(error: "ctypes.Array[ctypes.c_char]") -> str:
    return error.value.decode("utf-8", "replace")


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise RunnerError(f"{name} is {value}, but must be from {low} to {high}")
