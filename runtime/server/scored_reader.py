"""An answer as it is read: its events, and the log-probabilities of the tokens passed on."""

from collections.abc import Iterator
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
        self._tokens = KeptTokens(reader) if is_scored else None
        self._entries: list[TokenLogprob] = []

    def read(self, more: Any) -> Iterator[Event]:
        """Iterates over what a further part of the answer tells; None: it has ended."""
        if more is None:
            yield from self.reader.finish()
            self._entries += self._tokens.finish() if self._tokens else []
        elif self._tokens is None:
            for piece in more.pieces:
                yield from self.reader.push(piece)
        else:
            for event, entries in self._tokens.read(more.pieces, more.logprobs):
                self._entries += entries
                if event is not None:
                    yield event

    def take_logprobs(self) -> list[TokenLogprob]:
        """Returns the entries of the tokens since the last call, up to the last event's."""
        taken, self._entries = self._entries, []
        return taken

    @property
    def stop(self) -> str | None:
        """The stop text that ended it, if one did."""
        return self.reader.found if isinstance(self.reader, StopReader) else None
