"""The process of the model: takes requests from a connection, answers with events."""

import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from runtime.binding.logprobs import TokenLogprob
from runtime.engine import Engine
from runtime.errors import RunnerError
from runtime.generation import Generation
from runtime.runner import Runner
from runtime.server.scores import Scorer

# What OpenAI samples by; what the file of a model says comes before it.
_OPENAI = {"temperature": 1.0}


Task = Literal["text", "embedding", "transcription"]


@dataclass(frozen=True)
class ModelOptions:
    """How a model is loaded and run.

    Attributes:
        sequences: requests that run at once.
        waiting: requests that may wait for one of these.
        task: what the model does.
        require_signature: the public key with which the file must be signed; None: none is needed.
    """

    path: Path
    threads: int | None = None
    kv_cache: str = "default"
    adapter: str | None = None
    draft: str | None = None
    sequences: int = 8
    waiting: int = 64
    task: Task = "text"
    require_signature: str | None = None

    def load(self) -> Runner:
        """Loads the model.

        Raises:
            RunnerError: it cannot be used with these options.
        """
        return Runner(
            self.path,
            threads=self.threads,
            kv_cache=self.kv_cache,
            adapter=self.adapter,
            draft=self.draft,
            require_signature=self.require_signature,
        )


@dataclass(frozen=True)
class Pictured:
    """The pieces of a conversation, with the files of its pictures."""

    pieces: list[tuple[str, bool]]
    images: list[bytes]


Pieces = list[tuple[str, bool]] | Pictured


@dataclass(frozen=True)
class Submit:
    """A request: a text, its tokens or the pieces of a conversation, and Engine.submit()'s options;
    of a model that hears, the bytes of a sound, and Transcriber.transcribe()'s; or None, and
    Transcriber.stream()'s.

    Attributes:
        scored: whether the log-probabilities of the prompt's own tokens are wanted too.
    """

    id: int
    prompt: Any
    options: dict[str, Any]
    scored: bool = False


@dataclass(frozen=True)
class Cancel:
    id: int


@dataclass(frozen=True)
class Encode:
    """Asks for the tokens of a text, or of the pieces of a conversation.

    Attributes:
        as_prompt: with what the tokenizer puts around a prompt, such as BOS.
    """

    id: int
    prompt: str | Pieces
    as_prompt: bool = True


@dataclass(frozen=True)
class Decode:
    """Asks for the text of each token, in bytes."""

    id: int
    tokens: list[int]


@dataclass(frozen=True)
class Coded:
    """What was asked for: tokens, or their texts."""

    id: int
    values: list[Any]


@dataclass(frozen=True)
class Ready:
    """The model is loaded.

    Attributes:
        template: what Runner.chat_template returns.
    """

    template: dict[str, Any] | None


@dataclass(frozen=True)
class Refused:
    """A request that is not possible; with id 0, a model that cannot be loaded."""

    id: int
    reason: str


@dataclass(frozen=True)
class Accepted:
    """A request that will be answered; `scores` has an entry for each token of its prompt."""

    id: int
    scores: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class More:
    """More of an answer: its pieces, and its tokens if log-probabilities are wanted."""

    id: int
    pieces: list[str]
    logprobs: list[Any]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Ended:
    """The end of an answer: its statistics, or why the model failed."""

    id: int
    stats: dict[str, Any]
    failure: str | None = None


def run_process(
    run: Callable[[Connection, ModelOptions], None], connection: Connection, options: ModelOptions
) -> None:
    """Runs a model in a process of its own, which ends where one of its threads fails or cannot
    begin, or a function that the library calls: what waits for that would wait for ever, and the
    server starts another process."""
    threading.excepthook = sys.unraisablehook = _end_process
    run(connection, options)


def _end_process(failure: "threading.ExceptHookArgs | sys.UnraisableHookArgs") -> None:
    try:
        traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
    finally:
        os._exit(1)


def run_model(connection: Connection, options: ModelOptions) -> None:
    """Loads a model and serves the connection until None comes, or its other end is closed."""
    try:
        runner = options.load()
        ready = Ready(runner.chat_template)
        scorer = Scorer(options.load)
        most = options.sequences + options.waiting  # none has its place before the next step
        engine = Engine(runner, sequences=options.sequences, queue_size=most)
        connection.send(ready)
    except RunnerError as error:
        with suppress(OSError):
            connection.send(Refused(0, str(error)))
        return
    except OSError:
        return  # the server is gone
    with runner, engine:
        _Requests(connection, runner, engine, scorer).serve()


CONSTRAINTS = frozenset(["json_schema", "regex", "choice", "grammar"])


class _Requests:
    """The requests at work. Commands are read by one thread, events sent by another."""

    def __init__(
        self, connection: Connection, runner: Runner, engine: Engine, scorer: Scorer
    ) -> None:
        self._connection = connection
        self._runner = runner
        self._engine = engine
        self._scorer = scorer
        self._running: dict[int, Generation] = {}
        # How many log-probabilities were sent of each that the server knows to be accepted.
        self._told: dict[int, int] = {}
        self._later: set[int] = set()  # requests that are scored, compiled or decoded first
        self._gone: set[int] = set()  # those of them that were cancelled before
        self._scored: queue.SimpleQueue[Submit] = queue.SimpleQueue()
        self._constrained: queue.SimpleQueue[Submit | Encode] = queue.SimpleQueue()
        self._news: queue.SimpleQueue[int | object] = queue.SimpleQueue()

    def serve(self) -> None:
        threading.Thread(target=self._send, daemon=True).start()
        threading.Thread(target=self._score, daemon=True).start()
        threading.Thread(target=self._compile, daemon=True).start()
        while True:
            try:
                command = self._connection.recv()
            except (EOFError, OSError):
                return
            if command is None:
                return
            if isinstance(command, Encode | Submit) and isinstance(command.prompt, Pictured):
                if isinstance(command, Submit):
                    self._later.add(command.id)
                self._constrained.put(command)
            elif isinstance(command, Encode | Decode):
                self._news.put(self._coded(command))
            elif isinstance(command, Cancel):
                if command.id in self._later:
                    self._gone.add(command.id)
                generation = self._running.get(command.id)
                if generation is not None:
                    generation.cancel()
            elif command.scored:
                self._later.add(command.id)
                self._scored.put(command)
            elif not CONSTRAINTS.isdisjoint(command.options):
                self._later.add(command.id)
                self._constrained.put(command)
            else:
                self._start(command, [])

    def _start(self, request: Submit, scores: list[Any]) -> None:
        try:
            generation = self._engine.submit(
                self._encode(request.prompt),
                **{**_OPENAI, **self._engine.runner.sampling, **request.options},
                on_event=lambda: self._news.put(request.id),
                still_wanted=lambda: request.id not in self._gone,
            )
        except RunnerError as error:
            self._news.put(Refused(request.id, str(error)))
            return
        self._running[request.id] = generation
        if request.id in self._gone:
            generation.cancel()
        self._news.put(Accepted(request.id, scores))
        for _ in range(2):  # for the text that came before, and for an error behind it
            self._news.put(request.id)

    def _coded(self, command: Encode | Decode) -> Coded | Refused:
        try:
            if isinstance(command, Decode):
                texts = [self._runner.token_text(token) for token in command.tokens]
                return Coded(command.id, texts)
            prompt = command.prompt
            if not isinstance(prompt, str):
                return Coded(command.id, list(self._pieces(prompt)))
            encode = self._runner.encode_prompt if command.as_prompt else self._runner.encode
            return Coded(command.id, encode(prompt))
        except RunnerError as error:
            return Refused(command.id, str(error))

    def _encode(self, prompt: str | list[int] | Pieces) -> str | Sequence[int]:
        if isinstance(prompt, str):
            return prompt
        if isinstance(prompt, Pictured):
            return self._pieces(prompt)
        pieces = [piece for piece in prompt if isinstance(piece, tuple)]
        tokens = [token for token in prompt if isinstance(token, int)]
        if any(token < 0 for token in tokens):  # rows of pictures, which are others' own
            raise RunnerError("a token of the prompt is below 0, which is not in the vocabulary")
        return self._pieces(pieces) if pieces else tokens

    def _pieces(self, prompt: Pieces) -> list[int]:
        if isinstance(prompt, Pictured):
            return self._runner.encode_pieces(prompt.pieces, prompt.images)
        return self._runner.encode_pieces(prompt)

    def _compile(self) -> None:
        """Starts requests with a constraint or pictures: others need not wait while these are
        compiled or decoded."""
        while True:
            request = self._constrained.get()
            if isinstance(request, Encode):
                self._news.put(self._coded(request))
                continue
            if request.id in self._gone:
                self._news.put(Refused(request.id, "the request was cancelled"))
            else:
                self._start(request, [])
            self._later.discard(request.id)
            self._gone.discard(request.id)

    def _score(self) -> None:
        while True:
            request = self._scored.get()
            top = request.options.get("logprobs") or 0
            scores: list[TokenLogprob] = []
            try:
                for part in self._scorer.score(request.prompt, top):
                    scores += part
                    if request.id in self._gone:
                        raise RunnerError("the request was cancelled")
            except RunnerError as error:
                self._news.put(Refused(request.id, str(error)))
            else:
                self._start(request, scores)
            self._later.discard(request.id)
            self._gone.discard(request.id)

    def _send(self) -> None:
        while True:
            news = self._news.get()
            try:
                if isinstance(news, int):
                    self._send_more(news)
                else:
                    self._connection.send(news)
                    if isinstance(news, Accepted):
                        self._told[news.id] = 0
            except (OSError, ValueError):
                return  # the server is gone; serve() ends too

    def _send_more(self, request: int) -> None:
        if request not in self._told:
            return
        generation = self._running[request]
        failure = None
        try:
            pieces, ended = generation.poll_pieces()
        except RunnerError as error:
            pieces, ended, failure = [], True, str(error)
        logprobs = generation.logprobs[self._told[request] :]
        self._told[request] += len(logprobs)
        if pieces or logprobs:
            self._connection.send(More(request, pieces, logprobs))
        if ended:
            del self._running[request], self._told[request]
            self._connection.send(Ended(request, generation.stats or {}, failure))
