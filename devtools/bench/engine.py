"""The interface of everything that can be measured: a program with a model."""

from pathlib import Path
from typing import Protocol

from devtools.bench.server import Server
from devtools.bench.workload import FIRST_PROMPT, FULL_CONTEXT, Workload

_WARM_UP = 4  # tokens


class Engine(Protocol):
    """One program with one model, measured in turn with others.

    Attributes:
        name: for tables.
        model: the file it runs.
        max_context_len: positions its cache can hold; None if it has no limit of its own.
    """

    name: str
    model: Path
    max_context_len: int | None

    def open(self, threads: int, deepest: int) -> None:
        """Starts the process that stays, warms it up, and lets it decode at depths to `deepest`."""

    def close(self) -> None:
        """Ends what open() started; it must not raise."""

    def measure(self, workload: Workload) -> float:
        """Seconds of one sample."""

    def start(self, threads: int) -> tuple[float, float]:
        """Returns, for a fresh process, the seconds from its start until it is ready, and until it
        has read a prompt of FIRST_PROMPT tokens."""

    def peak_memory(self, threads: int) -> int | None:
        """The most bytes that a fresh process holds while it reads a context of FULL_CONTEXT tokens
        and decodes a few; None if the system does not report it."""


class ServedEngine:
    """A model behind a Server that knows prefill, decode, batch, sequences, fill and memory.

    Args:
        command: starts the server; the number of threads is appended.
        max_context_len: see Engine.
    """

    def __init__(
        self, name: str, model: Path, command: list[str | Path], max_context_len: int | None
    ) -> None:
        self.name = name
        self.model = model
        self._command = command
        self.max_context_len = max_context_len
        self._server: Server | None = None

    def open(self, threads: int, deepest: int) -> None:
        server = self._server = self._launch(threads)
        if deepest:
            server.ask("fill", deepest)
        server.ask("prefill", self._fit(FIRST_PROMPT))
        server.ask("decode", 0, self._fit(_WARM_UP))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def measure(self, workload: Workload) -> float:
        assert self._server is not None, "open() comes first"
        if workload.kind == "prefill":
            return self._server.ask("prefill", workload.tokens)["seconds"]
        if workload.kind == "decode":
            return self._server.ask("decode", workload.depth, workload.tokens)["seconds"]
        if workload.kind == "sequences":
            words = (workload.sequences, workload.depth, workload.tokens)
            return self._server.ask("sequences", *words)["seconds"]
        words = (workload.depth, workload.tokens, workload.calls)
        return self._server.ask("batch", *words)["seconds"]

    def start(self, threads: int) -> tuple[float, float]:
        with self._launch(threads) as server:
            server.ask("prefill", self._fit(FIRST_PROMPT))
            return server.load_s, server.age()

    def peak_memory(self, threads: int) -> int | None:
        with self._launch(threads) as server:
            context = self._fit(FULL_CONTEXT)
            decoded = min(_WARM_UP, context - 1)
            server.ask("prefill", context - decoded)
            server.ask("decode", context - decoded, decoded)
            return int(server.ask("memory")["peak_bytes"])

    def _launch(self, threads: int) -> Server:
        return Server([*self._command, str(threads)], self.name)

    def _fit(self, tokens: int) -> int:
        return tokens if self.max_context_len is None else min(tokens, self.max_context_len)
