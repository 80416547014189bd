"""The C library's runner as a Python object: who may use it when, and how it is freed."""

import ctypes
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, Self

from runtime.binding.c_arguments import MAX_COUNT, check_whole, encoded, text_of
from runtime.binding.library import ERROR_SIZE, RecordingCounts, library
from runtime.errors import RunnerError
from runtime.recording import MAX_RECORDING_BYTES, Recording


class RunnerHandle:
    """A runner of the library, used by one thread at a time, and freed when that is done.

    Attributes:
        sampling: how the model's authors sample, as the file has it: options of an answer by name,
            such as `temperature`, which are the defaults of generate(), Chat and Engine.
    """

    sampling: Mapping[str, float] = {}
    _handle: int | None = None
    _process = 0  # of none, until it is started

    def _start(self) -> None:
        self._process = os.getpid()
        self._busy = threading.Lock()  # held by whoever uses the model: one at a time
        self._using = threading.Lock()  # held while this Runner's handle is at work
        self._closing = False
        self._chats_gone: list[int] = []  # to be forgotten when another begins
        self._on_close: Callable[[], None] | None = None  # ends what uses the handle for longer
        self._control = threading.Lock()  # held by whoever needs the handle while the model runs

    def _take(self, handle: int) -> None:
        """Owns a runner that was loaded."""
        self._handle = handle
        self.sampling = json.loads(library().thimble_file_settings(handle))

    def close(self) -> None:
        """Ends an answer in progress, waits for other calls, and frees the model."""
        self._closing = True
        if os.getpid() != self._process:
            self._handle = None  # its threads belong to the other process
            return
        if self._on_close is not None:
            self._on_close()
        self._interrupt()
        with self._using, self._control:
            if self._handle is not None:
                library().thimble_free(self._handle)
            self._handle = None

    def start_recording(self, max_calls: int = 256, max_bytes: int = 32 << 20) -> None:
        """Records ExecuTorch's profile (an ETDump) from the next call of the model on.

        May be called during an answer, from any thread; the calls of forks are recorded too. A
        model that is not recording runs at full speed.

        Args:
            max_calls, max_bytes: limits, checked before each call of the model; later calls are
                only counted.

        Raises:
            RunnerError: it already records, a limit is out of range, or the runner is closed.
        """
        check_whole("max_calls", max_calls, 1, MAX_COUNT)
        check_whole("max_bytes", max_bytes, 1, MAX_RECORDING_BYTES)
        self._control_call(library().thimble_start_recording, max_calls, max_bytes)

    def stop_recording(self, path: str | os.PathLike[str]) -> Recording:
        """Ends the recording and writes it to a file, completely or not at all, with the model's
        path, the processor's name, the date, and the first 1024 bytes of the last prompt.

        Raises:
            RunnerError: no recording is running, the model was not called since, the file cannot be
                written (if its directory is the reason, the recording continues), or the runner is
                closed.
        """
        counts = RecordingCounts()
        stop = library().thimble_stop_recording
        self._control_call(stop, encoded(path), ctypes.byref(counts))
        return Recording(Path(path), counts.calls, counts.dropped_calls)

    def _interrupt(self) -> None:
        """Ends an answer in progress before its next call of the model."""
        with self._control:
            if self._handle is not None:
                library().thimble_interrupt(self._handle, 1)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Runner cannot be copied or pickled: load the model again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _control_call(self, function: Callable[..., int], *arguments: object) -> None:
        """Calls a function that may be called while the model runs."""
        error = ctypes.create_string_buffer(ERROR_SIZE)
        with self._control:
            failed = function(self._open(), *arguments, error, ERROR_SIZE)
        if failed:
            raise RunnerError(text_of(error))

    def _call(self, function: Callable[..., int], *arguments: object) -> None:
        error = ctypes.create_string_buffer(ERROR_SIZE)
        with self._holding() as handle:
            failed = function(handle, *arguments, error, ERROR_SIZE)
        if failed:
            raise RunnerError(text_of(error))

    @contextmanager
    def _holding(self) -> Iterator[int]:
        """Provides the handle, and excludes other use of the model."""
        self._acquire()
        try:
            with self._using:
                yield self._open()
        finally:
            self._busy.release()

    def _acquire(self) -> None:
        self._open()  # a closed Runner reports that even while a fork is busy
        if not self._busy.acquire(blocking=False):
            raise RunnerError(
                "this Runner or a fork of it is generating already: finish or close its iterator, "
                "or close its Engine"
            )

    def _open(self) -> int:
        """The handle."""
        if self._handle is None:
            raise RunnerError("this Runner is closed: load the model again")
        if os.getpid() != self._process:
            raise RunnerError(
                "this Runner was loaded before the process was forked: load the model again"
            )
        return self._handle
