"""The log-probabilities of an answer, told with the text that their tokens are."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from runtime.binding.logprobs import TokenLogprob
from runtime.chat_format.calls import Event, ToolCall
from runtime.chat_format.reader import Reader
from runtime.chat_format.stop_reader import StopReader
from runtime.server.replies import Offsets


class KeptTokens:
    """Holds tokens back until what they begin is passed on: those of a stop text never are."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._text = ""  # of all tokens, up to the piece with a stop text
        self._decided = 0  # of it, up to where it was passed on
        self._offsets = Offsets()
        self._waiting: deque[tuple[int, TokenLogprob]] = deque()  # with where they begin

    def read(
        self, pieces: Iterable[str], entries: Sequence[TokenLogprob]
    ) -> Iterator[tuple[Event | None, list[TokenLogprob]]]:
        """Adds pieces to the reader, and their tokens; iterates over what that returns, each event
        with the tokens to pass on then. None: there is no further event."""
        self._waiting += [(self._offsets.next(entry.data), entry) for entry in entries]
        for piece in pieces:
            if self._stopped is not None:
                break
            events = self._reader.push(piece)
            self._text += piece
            for event in events:
                if not isinstance(event, ToolCall):
                    at = self._text.find(event.text, self._decided)
                    self._decided = at + len(event.text) if at >= 0 else self._decided
                yield event, self._take()
            if self._stopped is not None:
                at = self._text.rfind(self._stopped)
                self._decided = at if at >= 0 else len(self._text) - len(self._stopped)
        yield None, self._take()

    def finish(self) -> list[TokenLogprob]:
        """Returns the rest of an answer that has ended."""
        rest = [] if self._stopped is not None else [entry for _, entry in self._waiting]
        self._waiting.clear()
        return rest

    @property
    def _stopped(self) -> str | None:
        """The text of the content's end that is not passed on, if a stop text ended the answer."""
        reader = self._reader
        return reader.held if isinstance(reader, StopReader) and reader.stopped else None

    def _take(self) -> list[TokenLogprob]:
        kept = []
        while self._waiting and self._waiting[0][0] < self._decided:
            kept.append(self._waiting.popleft()[1])
        return kept
