"""A request at work in an Engine."""

import ctypes
import json
from collections.abc import Callable, Iterator
from typing import Any

from runtime.binding.answer_stream import Pieces, Special, piece_of
from runtime.binding.library import EndCallback, TextCallback
from runtime.binding.logprobs import TokenLogprob, collector
from runtime.errors import NO_MEMORY, RunnerError


class Generation:
    """A request at work: iterating yields its text as it is generated, in complete characters.

    Attributes:
        stats: once it has ended, the statistics, as those of Runner.
        logprobs: the tokens of the text, if they were asked for with `logprobs`; those of a piece
            of text are in it before that is yielded.
    """

    def __init__(
        self,
        cancel: Callable[[int], None],
        forget: Callable[["Generation"], None],
        on_event: Callable[[], None] | None,
        wanted: Callable[[str], bool] | None,
    ) -> None:
        self.stats: dict[str, Any] | None = None
        self.logprobs: list[TokenLogprob] = []
        self._cancel, self._forget, self._on_event = cancel, forget, on_event
        self._wanted = wanted
        self._stopped = False
        self._broken: Exception | None = None
        self._pieces = Pieces()
        self._text: list[str] = []  # all pieces so far
        self._id = 0
        # The library calls them until the request has ended.
        self._on_text = TextCallback(lambda text, size, _: self._take(piece_of(text, size)))
        self._on_special = TextCallback(
            lambda text, size, _: self._take(Special(piece_of(text, size)))
        )
        self._on_token = collector(self.logprobs)
        self._on_end = EndCallback(self._take_end)

    def __iter__(self) -> Iterator[str]:
        """Iterates over the text that was not taken yet.

        Raises:
            RunnerError: the model failed.
            Exception: what `on_event` or `wanted` raised, at the end; it was not called again
                after that.
        """
        return iter(self._pieces)

    def text(self) -> str:
        """Waits for the end; returns the whole text, also what was taken before."""
        for _ in self:
            pass
        return "".join(self._text)

    def poll(self) -> tuple[str, bool]:
        """Returns the text that was not taken yet, without waiting, and whether it has ended.

        Raises:
            RunnerError: the model failed.
        """
        pieces, ended = self.poll_pieces()
        return "".join(pieces), ended

    def poll_pieces(self) -> tuple[list[str], bool]:
        """The same in pieces, of which special tokens are their own if the request wants that."""
        return self._pieces.poll()

    def cancel(self) -> None:
        """Ends it as interrupted; the text so far stays."""
        self._cancel(self._id)

    def _take(self, piece: str) -> int:
        self._text.append(piece)
        self._pieces.put(piece)
        self._report()
        if self._wanted is not None:
            try:
                self._stopped = not self._wanted(piece)
            except Exception as error:  # in a thread whose errors nobody would see
                self._wanted, self._broken = None, error
        return int(not self._stopped)

    def _take_end(self, error: int | None, stats: int, _context: Any) -> None:
        try:
            told = json.loads(ctypes.string_at(stats))
            failed = ctypes.string_at(error).decode("utf-8", "replace") if error else None
        except MemoryError:  # an end that is not told would be waited for
            told, failed = {"stop_reason": "interrupted"}, NO_MEMORY
        self._end(failed, told)

    def _end(self, error: str | None, stats: dict[str, Any]) -> None:
        self.stats = stats
        if self._stopped and stats["stop_reason"] == "interrupted":
            stats["stop_reason"] = "stop"
        self._forget(self)
        failed = None if error is None else RunnerError(error)
        self._pieces.end(self._broken or failed)
        self._report()

    def _report(self) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event()
        except Exception as error:  # in a thread whose errors nobody would see
            self._on_event, self._broken = None, error
