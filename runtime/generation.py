"""A request at work in an Engine."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from runtime.binding.answer_stream import Pieces
from runtime.binding.library import EndCallback, TextCallback
from runtime.binding.logprobs import TokenLogprob, collector
from runtime.errors import RunnerError


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
    ) -> None:
        self.stats: dict[str, Any] | None = None
        self.logprobs: list[TokenLogprob] = []
        self._cancel, self._forget, self._on_event = cancel, forget, on_event
        self._broken: Exception | None = None
        self._pieces = Pieces()
        self._id = 0
        # The library calls them until the request has ended.
        self._on_text = TextCallback(self._take)
        self._on_token = collector(self.logprobs)
        self._on_end = EndCallback(self._end)

    def __iter__(self) -> Iterator[str]:
        """Iterates over the text that was not taken yet.

        Raises:
            RunnerError: the model failed.
            Exception: what `on_event` raised, at the end; it was not called again after that.
        """
        return iter(self._pieces)

    def text(self) -> str:
        """Waits for the end; returns the text that was not taken yet, all of it if none was."""
        return "".join(self)

    def poll(self) -> tuple[str, bool]:
        """Returns the text that was not taken yet, without waiting, and whether it has ended.

        Raises:
            RunnerError: the model failed.
        """
        return self._pieces.poll()

    def cancel(self) -> None:
        """Ends it as interrupted; the text so far stays."""
        self._cancel(self._id)

    def _take(self, text: Any, size: int, _context: Any) -> int:
        self._pieces.put(text, size)
        self._report()
        return 1

    def _end(self, error: bytes | None, stats: bytes, _context: Any) -> None:
        self.stats = json.loads(stats)
        self._forget(self)
        failed = None if error is None else RunnerError(error.decode("utf-8", "replace"))
        self._pieces.end(self._broken or failed)
        self._report()

    def _report(self) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event()
        except Exception as error:  # in a thread whose errors nobody would see
            self._on_event, self._broken = None, error
