"""The process of a model that hears: takes sounds from a connection, answers with their text."""

import queue
import threading
from collections.abc import Iterator
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
    is_final: bool = True


@dataclass(frozen=True)
class Feed:
    """More of a sound that arrives: samples of 16 bits and one channel; b"": it has ended."""

    id: int
    samples: bytes


@dataclass(frozen=True)
class Took(More):
    """A piece of a sound that arrives was heard."""


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
    _arriving: "dict[int, queue.SimpleQueue[bytes]]" = field(default_factory=dict)
    _current: int | None = None

    def serve(self) -> None:
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        try:
            while (command := self.connection.recv()) is not None:
                self._take(command)
        finally:
            with self._lock:
                for id, pieces in self._arriving.items():
                    self._gone.add(id)
                    pieces.put(b"")
            self.transcriber.interrupt()
            self._waiting.put(None)
            worker.join()

    def _take(self, command: Submit | Feed | Cancel) -> None:
        with self._lock:
            if isinstance(command, Submit):
                self._pending.add(command.id)
                if command.prompt is None:
                    self._arriving[command.id] = queue.SimpleQueue()
                self._waiting.put(command)
            elif command.id not in self._pending:
                return
            elif isinstance(command, Feed):
                self._arriving[command.id].put(command.samples)
            else:
                self._gone.add(command.id)
                if command.id in self._arriving:
                    self._arriving[command.id].put(b"")
                if command.id == self._current:
                    self.transcriber.interrupt()

    def _work(self) -> None:
        with suppress(OSError):  # the server is gone
            while (request := self._waiting.get()) is not None:
                with self._lock:
                    self._current = request.id
                    self.transcriber.interrupt(request.id in self._gone)
                if request.prompt is None:
                    self._listen(request)
                else:
                    self._hear(request)
                with self._lock:
                    self._current = None
                    self._arriving.pop(request.id, None)
                    self._pending.discard(request.id)
                    self._gone.discard(request.id)

    def _listen(self, request: Submit) -> None:
        """Hears a sound while it arrives."""
        import numpy as np

        send, id = self.connection.send, request.id
        pieces = self._arriving[id]

        def arrived() -> "Iterator[np.ndarray[Any, Any]]":
            while (piece := pieces.get()) and id not in self._gone:
                yield np.frombuffer(piece, "<i2")
                send(Took(id, [], []))

        send(Accepted(id))
        try:
            for part in self.transcriber.stream(arrived(), **request.options):
                send(heard(id, part.segment, is_final=part.is_final))
        except RunnerError as error:
            send(Ended(id, {}, str(error)))
        else:
            send(Ended(id, {}))

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
