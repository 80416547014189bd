"""What can be measured: a program and a model, by the same few questions."""

from pathlib import Path
from typing import Protocol

from devtools.bench.server import Server
from devtools.bench.workload import FIRST_PROMPT, FULL_CONTEXT, Workload

_WARM_UP = 4  # tokens


class Engine(Protocol):
    """One program with one model, to be asked in turn with others.

    Attributes:
        name: for tables.
        model: the file it runs.
        max_context_len: positions its cache can hold; None where it has no limit of its own.
    """

    name: str
    model: Path
    max_context_len: int | None

    def open(self, threads: int, deepest: int) -> None:
        """Starts what stays running, warmed up, and able to decode at depths up to `deepest`."""

    def close(self) -> None:
        """Ends what open() started; nothing else may fail for it."""

    def measure(self, workload: Workload) -> float:
        """Seconds of one sample."""

    def start(self, threads: int) -> tuple[float, float]:
        """Of a fresh process: seconds from its start until it is ready, and until it has read a
        prompt of FIRST_PROMPT tokens."""

    def peak_memory(self, threads: int) -> int | None:
        """Bytes that a fresh process holds at most while it reads a context of FULL_CONTEXT tokens
        and decodes a few; None where the system does not tell."""


class ServedEngine:
    """A model behind a Server that knows prefill, decode, batch, fill and memory.

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
