"""Finds where a call ends in a growing text."""

from collections.abc import Callable, Sequence

from runtime.chat_format.calls import NoCallError, ToolCall


class CallEnd:
    """Looks for the first mark before which the text is a whole call: a mark before that is in a
    string of the call, for what is cut within a string cannot be read.

    Args:
        marks: the texts at which calls end.
        parse: reads calls without their mark. Raises NoCallError if the text is whole, but no call;
            another ValueError, or a TypeError, if it cannot be read.
    """

    def __init__(self, marks: Sequence[str], parse: Callable[[str], list[ToolCall]]) -> None:
        self._marks = [mark for mark in marks if mark]
        self._parse = parse
        self._tried = 0  # the beginning of the text in which marks were looked for

    def find(self, text: str) -> tuple[list[ToolCall], str] | None:
        """The calls, none if the text is no call, and the rest of the text; None: the end has not
        come.

        Args:
            text: the same as before, and more; another one once an end was found.
        """
        while (mark_found := self._first(text)) is not None:
            at, mark = mark_found
            calls = self.read(text[:at])
            if calls is not None:
                self._tried = 0
                return calls, text[at + len(mark) :]
            self._tried = at + 1
        longest = max(map(len, self._marks), default=0)
        self._tried = max(self._tried, len(text) - longest + 1)
        return None

    def read(self, text: str) -> list[ToolCall] | None:
        """The calls in a text without a mark behind it, none if it is no call; None if it is not
        whole."""
        try:
            return self._parse(text)
        except NoCallError:
            return []
        except (ValueError, TypeError, RecursionError):
            return None

    def cut(self, text: str) -> tuple[str, str] | None:
        """What is no call, with the mark behind it, and the rest of the text; None: no mark."""
        self._tried = 0
        first = self._first(text)
        if first is None:
            return None
        end = first[0] + len(first[1])
        return text[:end], text[end:]

    def _first(self, text: str) -> tuple[int, str] | None:
        """The first mark that was not tried, and where it is."""
        places = [(text.find(mark, self._tried), mark) for mark in self._marks]
        return min(((at, mark) for at, mark in places if at >= 0), default=None)
