"""The process of a model that hears: takes sounds from a connection, answers with their text."""

import queue
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from runtime.errors import RunnerError
from runtime.server.model_process import (
    Accepted,
    Cancel,
    Ended,
    ModelOptions,
    More,
    Ready,
    Refused,
    Submit,
)
from runtime.transcriber import Segment, Transcriber


@dataclass(frozen=True)
class Heard(More):
    """A segment; the last one of an answer has none, but what is known of all of the sound."""

    segment: Segment | None = None
    language: str = ""
    duration: float = 0.0


def heard(id: int, segment: Segment | None, **known: Any) -> Heard:
    return Heard(id, [] if segment is None else [segment.text], [], segment, **known)


def run_transcriber(connection: Connection, options: ModelOptions) -> None:
    """Loads a model and serves the connection until None comes, or its other end is closed."""
    with suppress(OSError, EOFError):  # the server is gone
        try:
            transcriber = Transcriber(options.path, options.threads, options.require_signature)
        except RunnerError as error:
            connection.send(Refused(0, str(error)))
            return
        with transcriber:
            sounds = _Sounds(connection, transcriber)
            connection.send(Ready(None))
            sounds.serve()


@dataclass
class _Sounds:
    """Commands are read by one thread, and sounds heard by another, one after the other."""

    connection: Connection
    transcriber: Transcriber
    _waiting: "queue.SimpleQueue[Submit | None]" = field(default_factory=queue.SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _gone: set[int] = field(default_factory=set)
    _pending: set[int] = field(default_factory=set)
    _current: int | None = None

    def serve(self) -> None:
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        try:
            while (command := self.connection.recv()) is not None:
                self._take(command)
        finally:
            self.transcriber.interrupt()
            self._waiting.put(None)
            worker.join()

    def _take(self, command: Submit | Cancel) -> None:
        with self._lock:
            if isinstance(command, Submit):
                self._pending.add(command.id)
                self._waiting.put(command)
            elif command.id in self._pending:
                self._gone.add(command.id)
                if command.id == self._current:
                    self.transcriber.interrupt()

    def _work(self) -> None:
        with suppress(OSError):  # the server is gone
            while (request := self._waiting.get()) is not None:
                with self._lock:
                    self._current = request.id
                    self.transcriber.interrupt(request.id in self._gone)
                self._hear(request)
                with self._lock:
                    self._current = None
                    self._pending.discard(request.id)
                    self._gone.discard(request.id)

    def _hear(self, request: Submit) -> None:
        send, id = self.connection.send, request.id
        began = False

        def take(segment: Segment) -> None:
            nonlocal began
            if not began:
                send(Accepted(id))
            began = True
            send(heard(id, segment))

        try:
            whole = self.transcriber.transcribe(request.prompt, on_segment=take, **request.options)
        except RunnerError as error:
            send(Ended(id, {}, str(error)) if began else Refused(id, str(error)))
            return
        if not began:
            send(Accepted(id))
        send(heard(id, None, language=whole.language, duration=whole.duration))
        send(Ended(id, {}))
