"""Ends an answer at a text of its content: not of its reasoning, nor of its calls."""

from collections.abc import Sequence

from runtime.chat_format.calls import Event, Text
from runtime.chat_format.reader import Reader, beginning_at_end


class StopReader:
    """A reader of answers whose content ends where one of several texts is complete in it. The one
    that is complete first counts, and of several that are complete at once the longest.

    Args:
        texts: at least a character each.

    Attributes:
        stopped: whether one is complete; what follows is not passed on.
        found: that text.
        held: the content's end, which may be the beginning of one; once it is complete, with it.
    """

    def __init__(self, reader: Reader, texts: Sequence[str]) -> None:
        self.stopped = False
        self.found: str | None = None
        self._reader = reader
        self._texts = texts
        self.held = ""

    def push(self, piece: str) -> list[Event]:
        return [] if self.stopped else self._cut(self._reader.push(piece))

    def finish(self) -> list[Event]:
        if self.stopped:
            return []
        events = self._cut(self._reader.finish())
        return events if self.stopped else [*events, *self._release()]

    def wants(self, piece: str) -> bool:
        """Adds a piece; returns whether more is wanted."""
        self.push(piece)
        return not self.stopped

    def _cut(self, events: list[Event]) -> list[Event]:
        kept: list[Event] = []
        for event in events:
            if not isinstance(event, Text):
                kept += [*self._release(), event]
                continue
            kept += self._text(event.text)
            if self.stopped:
                break
        return kept

    def _text(self, text: str) -> list[Event]:
        held = self.held + text
        ends = [(at + len(t), -len(t), t) for t in self._texts if (at := held.find(t)) >= 0]
        if ends:
            end, length, self.found = min(ends)
            self.stopped = True
            decided = end + length
        else:
            decided = len(held) - beginning_at_end(held, self._texts)
        self.held = held[decided:]
        return [Text(held[:decided])] if decided else []

    def _release(self) -> list[Event]:
        text, self.held = self.held, ""
        return [Text(text)] if text else []
