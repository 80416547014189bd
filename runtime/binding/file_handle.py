"""What the library made of a file, as a Python object: who may use it, and how it is freed."""

import ctypes
import os
import threading
from typing import NoReturn, Self

from runtime.binding.c_arguments import MAX_THREADS, check_whole, encoded, text_of
from runtime.binding.library import ERROR_SIZE, LoadOptions, library
from runtime.errors import RunnerError


class FileHandle:
    """Used by one thread of one process at a time, and freed when that is done."""

    _KIND: str  # of the library's functions, such as "embedder"
    _NOUN: str  # such as "an Embedder"
    _AGAIN: str  # what to do when it cannot be used any more

    _handle: int | None = None

    def _load(
        self,
        path: str | os.PathLike[str],
        threads: int | None,
        require_signature: str | os.PathLike[str] | None,
    ) -> int:
        """Loads the file, and returns the handle.

        Raises:
            RunnerError: the file cannot be used, or is not signed with the key, or threads is not
                from 1 to 256.
        """
        if threads is not None:
            check_whole("threads", threads, 1, MAX_THREADS)
        self._busy = threading.Lock()
        self._process = os.getpid()
        error = ctypes.create_string_buffer(ERROR_SIZE)
        options = LoadOptions(threads or 0, 0, 0)
        load = getattr(library(), f"thimble_{self._KIND}_load_signed")
        key = None if require_signature is None else encoded(require_signature)
        handle = load(encoded(path), key, ctypes.byref(options), error, ERROR_SIZE)
        if not handle:
            raise RunnerError(text_of(error))
        self._handle = handle
        return handle

    def _share(self, other: "FileHandle", handle: int) -> None:
        """Makes this another handle of the same file: one thread at a time uses both."""
        self._busy, self._process, self._handle = other._busy, other._process, handle

    def close(self) -> None:
        """Waits for other calls, and frees the file."""
        if self._handle is None:
            return
        if os.getpid() != self._process:
            self._handle = None  # its threads belong to the other process
            return
        with self._busy:
            if self._handle is not None:
                getattr(library(), f"thimble_{self._KIND}_free")(self._handle)
            self._handle = None

    def _open(self) -> int:
        """The handle."""
        this = f"this {self._NOUN.partition(' ')[2]}"
        if self._handle is None:
            raise RunnerError(f"{this} is closed: {self._AGAIN}")
        if os.getpid() != self._process:
            raise RunnerError(f"{this} was loaded before the process was forked: {self._AGAIN}")
        return self._handle

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self._NOUN} cannot be copied or pickled: {self._AGAIN}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
