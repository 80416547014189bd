"""An answer as it is read: its events, and the log-probabilities of the tokens passed on."""

from typing import Any

from runtime.binding.logprobs import TokenLogprob
from runtime.chat_format.calls import Event
from runtime.chat_format.reader import Reader
from runtime.chat_format.stop_reader import StopReader
from runtime.server.kept_tokens import KeptTokens


class ScoredReader:
    """
    Attributes:
        reader: what reads the pieces.
    """

    def __init__(self, reader: Reader, is_scored: bool) -> None:
        self.reader = reader
        self._tokens = KeptTokens(reader) if is_scored and isinstance(reader, StopReader) else None
        self._entries: list[TokenLogprob] = []

    def read(self, more: Any) -> list[Event]:
        """Returns what a further part of the answer tells; None: it has ended."""
        if more is None:
            events = self.reader.finish()
            self._entries += self._tokens.finish() if self._tokens else []
            return events
        push = self._tokens.push if self._tokens else self.reader.push
        events = [event for piece in more.pieces for event in push(piece)]
        self._entries += self._tokens.take(more.logprobs) if self._tokens else more.logprobs
        return events

    def take_logprobs(self) -> list[TokenLogprob]:
        """Returns the entries of the tokens since the last call."""
        taken, self._entries = self._entries, []
        return taken

    @property
    def stop(self) -> str | None:
        """The stop text that ended it, if one did."""
        return self.reader.found if isinstance(self.reader, StopReader) else None
