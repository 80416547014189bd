"""The model as the server sees it: a process of its own, started again if it dies."""

import asyncio
import logging
import multiprocessing
import signal
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from runtime.chat_format.template import ChatTemplate
from runtime.embedder import Embeddings
from runtime.errors import RunnerError
from runtime.server.embedding_process import Embed, run_embedder
from runtime.server.hearing_process import Feed, run_transcriber
from runtime.server.model_file import ModelFile
from runtime.server.model_process import (
    Accepted,
    Cancel,
    Coded,
    Decode,
    Encode,
    Ended,
    ModelOptions,
    More,
    Pieces,
    Ready,
    Refused,
    Submit,
    Task,
    run_model,
    run_process,
)
from runtime.server.pace import Pace

_ENDING = (signal.SIGINT, signal.SIGTERM)
_LOG = logging.getLogger("uvicorn.error")
_Coding = Encode | Decode | Embed
_Command = Submit | Feed | Cancel | _Coding | None
_PROCESSES: dict[Task, Callable[[Connection, ModelOptions], None]] = {
    "text": run_model,
    "embedding": run_embedder,
    "transcription": run_transcriber,
}
_RESTART_S = (0.1, 1.0, 5.0, 30.0)  # before the first, second ... restart in a row


class RequestError(RunnerError):
    """The model refuses a request; the client can mend it."""


class BusyError(RunnerError):
    """The model has no place for another request now.

    Attributes:
        retry_after: seconds in which those that are waiting are answered; None: the model is being
            loaded.
    """

    def __init__(self, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class ModelError(RunnerError):
    """The model failed, or its process ended."""


class Answer:
    """An answer at work.

    Attributes:
        scores: an entry for each token of the prompt, if they were asked for.
        stats: once it has ended, its statistics.
    """

    def __init__(self, model: "Model", number: int) -> None:
        self.number = number
        self.scores: list[Any] = []
        self.stats: dict[str, Any] = {}
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self._model = model
        self._ended = False

    async def accepted(self) -> None:
        """Waits until the model has taken the request.

        Raises:
            RequestError: it refuses it.
            ModelError: its process ended.
        """
        event = await self._next()
        assert isinstance(event, Accepted)
        self.scores = event.scores

    async def __aiter__(self) -> AsyncIterator[More]:
        """Iterates over what is generated.

        Raises:
            ModelError: the model failed.
        """
        while isinstance(event := await self._next(), More):
            yield event
        assert isinstance(event, Ended)
        self.stats = event.stats
        if event.failure is not None:
            raise ModelError(f"the model failed: {event.failure}")

    def close(self) -> None:
        """Ends it, if it has not ended."""
        if not self._ended:
            self._ended = True
            self._model.cancel(self)

    async def _next(self) -> Any:
        event = await self.events.get()
        if isinstance(event, More | Accepted):
            return event
        self._ended = True
        if isinstance(event, Refused):
            raise RequestError(event.reason)
        if isinstance(event, Exception):
            raise event
        return event


class Model:
    """Runs a model in another process.

    Attributes:
        template: of its chats; None: the model has none.
        restarts: how often the process was started again.
        on_end: called with the statistics of each answer, also of one that was cancelled.
    """

    def __init__(self, options: ModelOptions) -> None:
        self.template: ChatTemplate | None = None
        self.restarts = 0
        self.on_end: Callable[[dict[str, Any]], None] | None = None
        self._options = options
        self._numbers = count(1)
        self._answers: dict[int, Answer] = {}
        self._pace = Pace()
        self._codings: dict[int, asyncio.Future[list[Any]]] = {}
        self._connection: Connection | None = None
        self._sender = ThreadPoolExecutor(1)
        self._process: Any = None
        self._ready = False
        self._stopping = False
        self._file = ModelFile(options.path)
        self._not_loaded: str | None = None  # why the last load failed

    @property
    def ready(self) -> bool:
        return self._ready

    @property
    def places(self) -> int:
        """The most requests at work or waiting."""
        return self._options.sequences + self._options.waiting

    @property
    def sequences(self) -> int:
        """The most requests at work."""
        return self._options.sequences

    @property
    def running(self) -> int:
        """The number of requests at work or waiting."""
        return len(self._answers) + len(self._codings)

    async def start(self) -> None:
        """Starts the process and waits until the model is loaded.

        Raises:
            ModelError: it cannot be loaded.
        """
        self._loop = asyncio.get_running_loop()
        self._file.loaded()
        loaded: asyncio.Future[None] = self._loop.create_future()
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self._connection = here
        self._process = context.Process(
            target=run_process,
            args=(_PROCESSES[self._options.task], there, self._options),
            daemon=True,
            name="thimble-model",
        )
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
        self._process.start()  # it inherits that signals are ignored: they are for the server
        for number, handler in handlers.items():
            signal.signal(number, handler)
        there.close()
        threading.Thread(target=self._receive, args=(here, loaded), daemon=True).start()
        await loaded

    def fail_all(self, reason: str) -> None:
        """Ends every answer with an error; no other can begin."""
        self._ready, self._stopping = False, True
        for answer in list(self._answers.values()):
            self.cancel(answer)
            answer.events.put_nowait(ModelError(reason))

    async def stop(self) -> None:
        """Ends the process, and with it every answer."""
        self._stopping = True
        self._send(None)
        if self._process is not None:
            await asyncio.to_thread(self._process.join, 5)
            self._process.kill()
            await asyncio.to_thread(self._process.join)

    async def submit(self, prompt: Any, options: dict[str, Any], scored: bool = False) -> Answer:
        """Starts an answer, which the caller must close.

        Raises:
            RequestError: the request is not possible.
            BusyError: too many are waiting, or the model is being loaded again.
            ModelError: its process ended, or it cannot be loaded again.
        """
        self._need_ready()
        self._need_place()
        if not self._answers:
            self._pace.begun(self._loop.time())
        answer = Answer(self, next(self._numbers))
        self._answers[answer.number] = answer
        self._send(Submit(answer.number, prompt, options, scored))
        try:
            await answer.accepted()
        except BaseException:
            answer.close()
            raise
        return answer

    def feed(self, answer: Answer, samples: bytes) -> None:
        """Gives more of a sound that arrives, or its end, which b"" is."""
        self._send(Feed(answer.number, samples))

    async def encode(self, prompt: str | Pieces, as_prompt: bool = True) -> list[int]:
        """Returns the tokens of a text or of a conversation's pieces.

        Args:
            as_prompt: with what the tokenizer puts around a prompt, such as BOS.

        Raises:
            RequestError: it has none.
            BusyError: the model is being loaded again.
            ModelError: as submit().
        """
        return await self._code(Encode(next(self._numbers), prompt, as_prompt))

    async def decode(self, tokens: list[int]) -> list[bytes]:
        """Returns the text of each token.

        Raises:
            RequestError: one is not in the vocabulary.
            BusyError, ModelError: as encode().
        """
        return await self._code(Decode(next(self._numbers), tokens))

    async def embed(self, texts: list[str], prompt_name: str | None) -> Embeddings:
        """Returns what Embedder.embed() does.

        Raises:
            RequestError: there is no such prompt.
            BusyError, ModelError: as submit().
        """
        self._need_place()
        if not self.running:
            self._pace.begun(self._loop.time())
        try:
            (embeddings,) = await self._code(Embed(next(self._numbers), texts, prompt_name))
        finally:
            self._pace.ended(self._loop.time())
        return embeddings  # type: ignore[no-any-return]

    def _need_ready(self) -> None:
        if self._ready:
            return
        if self._not_loaded is not None:
            raise ModelError(f"the model cannot be loaded again: {self._not_loaded}")
        raise BusyError("the model is being loaded again: try again in a few seconds")

    def _need_place(self) -> None:
        if self.running >= self.places:
            raise BusyError(
                f"{self.running} requests are at work or waiting: try again later",
                self._pace.seconds_for(self.running),
            )

    async def _code(self, command: _Coding) -> list[Any]:
        self._need_ready()
        coded: asyncio.Future[list[Any]] = self._loop.create_future()
        self._codings[command.id] = coded
        self._send(command)
        try:
            return await coded
        finally:
            del self._codings[command.id]

    def cancel(self, answer: Answer) -> None:
        self._send(Cancel(answer.number))

    def _send(self, command: _Command) -> None:
        """Sends a command after those before it, without waiting: the process may be busy."""
        self._sender.submit(self._send_now, command)

    def _send_now(self, command: _Command) -> None:
        try:
            if self._connection is not None:
                self._connection.send(command)
        except (OSError, ValueError):
            pass  # its process ended, which _receive() tells everyone

    def _receive(self, connection: Connection, loaded: "asyncio.Future[None]") -> None:
        """Passes on events until the process ends; runs in a thread."""
        while True:
            try:
                event = connection.recv()
            except (EOFError, OSError):
                break
            self._loop.call_soon_threadsafe(self._take, event, loaded)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lost, loaded)

    def _take(self, event: Any, loaded: "asyncio.Future[None]") -> None:
        if isinstance(event, Ready):
            stored = event.template
            self.template = None if stored is None else ChatTemplate(**stored)
            self._ready, self._not_loaded = True, None
            if not loaded.done():
                loaded.set_result(None)
        elif isinstance(event, Refused) and event.id == 0:
            if not loaded.done():
                loaded.set_exception(ModelError(event.reason))
        elif self._fails(event) and self._file.change is not None:
            self._process.kill()  # which _lost() tells all who wait
        elif event.id in self._codings:
            coded = self._codings[event.id]
            if coded.done():
                return
            if isinstance(event, Coded):
                coded.set_result(event.values)
            else:
                coded.set_exception(RequestError(event.reason))
        else:
            answer = self._answers.get(event.id)
            if isinstance(event, Ended | Refused):
                self._answers.pop(event.id, None)
                self._pace.ended(self._loop.time())
            if isinstance(event, Ended) and event.stats and self.on_end is not None:
                self.on_end(event.stats)
            if answer is not None:
                answer.events.put_nowait(event)

    def _fails(self, event: Any) -> bool:
        """Whether the model failed, or may have failed."""
        if isinstance(event, Refused):
            return self._options.task != "text"  # others refuse where it fails
        return isinstance(event, Ended) and event.failure is not None

    def _lost(self, loaded: "asyncio.Future[None]") -> None:
        """The process ended: its requests fail, and it is started again."""
        self._ready = False
        change = self._file.change
        ended = (change or "the model's process ended") + ": send the request again"
        answers, self._answers = list(self._answers.values()), {}
        for answer in answers:
            answer.events.put_nowait(ModelError(ended))
        for coded in self._codings.values():
            if not coded.done():
                coded.set_exception(ModelError(ended))
        if not loaded.done():
            loaded.set_exception(ModelError("the model's process ended while it was loading"))
        elif not self._stopping and loaded.exception() is None:
            self._restarting = self._loop.create_task(self._restart(change))

    async def _restart(self, change: str | None) -> None:
        await asyncio.to_thread(self._process.join)
        why = "" if change is None else f"{change}: "
        code = self._process.exitcode
        _LOG.error("%sthe model's process ended with code %s; it is started again", why, code)
        for pause in (*_RESTART_S, *[_RESTART_S[-1]] * 1000):
            await asyncio.sleep(pause)
            if self._stopping:
                return
            self.restarts += 1
            try:
                return await self.start()
            except ModelError as error:
                _LOG.error("the model cannot be loaded again: %s", error)
                self._not_loaded = self._file.without_folder(str(error))
