"""The log-probabilities of an answer that stop texts may end."""

from collections import deque
from collections.abc import Sequence

from runtime.binding.logprobs import TokenLogprob
from runtime.chat_format.calls import Event, ToolCall
from runtime.chat_format.stop_reader import StopReader
from runtime.server.replies import Offsets


class KeptTokens:
    """Holds tokens back until what they begin is passed on: those of a stop text never are."""

    def __init__(self, reader: StopReader) -> None:
        self._reader = reader
        self._text = ""  # of all tokens, up to the piece with a stop text
        self._decided = 0  # of it, up to where it was passed on
        self._offsets = Offsets()
        self._waiting: deque[tuple[int, TokenLogprob]] = deque()  # with where they begin

    def push(self, piece: str) -> list[Event]:
        """Adds a piece to the reader; returns what that returns."""
        if self._reader.stopped:
            return []
        events = self._reader.push(piece)
        self._text += piece
        for event in events:
            if not isinstance(event, ToolCall):
                at = self._text.find(event.text, self._decided)
                self._decided = at + len(event.text) if at >= 0 else self._decided
        if self._reader.stopped:
            at = self._text.rfind(self._reader.held)
            self._decided = at if at >= 0 else len(self._text) - len(self._reader.held)
        return events

    def take(self, entries: Sequence[TokenLogprob]) -> list[TokenLogprob]:
        """Adds the tokens of the pieces so far; returns those to pass on now."""
        self._waiting += [(self._offsets.next(entry.data), entry) for entry in entries]
        kept = []
        while self._waiting and self._waiting[0][0] < self._decided:
            kept.append(self._waiting.popleft()[1])
        return kept

    def finish(self) -> list[TokenLogprob]:
        """Returns the rest of an answer that has ended."""
        rest = [] if self._reader.stopped else [entry for _, entry in self._waiting]
        self._waiting.clear()
        return rest
