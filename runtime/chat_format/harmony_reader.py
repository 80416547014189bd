"""Reads gpt-oss's answers: several messages, each with a header."""

import re
from collections.abc import Sequence

from runtime.chat_format.call_end import CallEnd
from runtime.chat_format.calls import Event, Reasoning, Text, Tool, ToolCall
from runtime.chat_format.formats.harmony import Harmony
from runtime.chat_format.reader import split_at
from runtime.chat_format.special_tokens import SpecialTokens, without_special

_CALL = re.compile("to=functions\\.([^\\s<\ud800-\udfff]+)")
_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>")
_HEADS = ("assistant", "to=")  # what a header may have before its channel


class HarmonyReader:
    """The channel `analysis` is reasoning; a message to a function is a call; the rest is text,
    also what has no header.

    Args:
        tools: the functions that may be called: a message to another is text.
    """

    def __init__(self, special: SpecialTokens, tools: Sequence[Tool]) -> None:
        self._special = special
        self._names = {tool.name for tool in tools}
        self._message = special.written("<|message|>")
        self._channel = special.written("<|channel|>")
        self._ends = [special.written(end) for end in _ENDS]
        self._rest = ""
        self._header: str | None = None  # of the message at work; None: it is not complete
        self._has_role = False  # the header begins with a role
        self._call_end = CallEnd(self._ends, self._calls)

    def push(self, piece: str) -> list[Event]:
        self._rest += self._special.read(piece)
        events: list[Event] = []
        while True:
            if self._header is None and not self._read_header(events):
                return events
            if self._function() is not None:
                ended = self._call_end.find(self._rest)
                if ended is None:
                    return events  # calls are passed on whole
                calls, rest = ended
                message = self._rest[: len(self._rest) - len(rest)]
                events += calls or _text(message)
                self._rest = rest
                self._end_message(message[-len(self._ends[-1]) :])
                continue
            channel = [] if self._header else [self._channel]
            before, marker, self._rest = split_at(self._rest, [*self._ends, *channel])
            events += self._part(before)
            if marker is None:
                return events
            self._end_message(marker)

    def finish(self) -> list[Event]:
        rest, self._rest = self._rest, ""
        if self._function() is not None:
            calls = self._call_end.read(rest)
            whole = calls is not None or self._call_end.cut(rest) is not None
            return [*(calls or (_text(rest) if whole else []))]
        if self._header is not None:
            return self._part(rest)
        return self._text_before_header(rest)

    def _read_header(self, events: list[Event]) -> bool:
        """Reads what is before a message; returns whether that has begun."""
        while True:
            before, marker, rest = split_at(self._rest, [self._message, *self._ends])
            if marker == self._message:
                self._header, self._rest = before, rest
                return True
            if marker is None:
                start = before.lstrip()
                if self._is_header(before) or any(
                    start[: len(h)] == h[: len(start)] for h in _HEADS
                ):
                    return False
                self._header = ""
                return True
            events += self._text_before_header(before)
            self._rest = rest
            self._end_message(marker)

    def _is_header(self, text: str) -> bool:
        return self._has_role or self._channel in text

    def _text_before_header(self, text: str) -> list[Event]:
        """A header that was cut is no text."""
        return [] if self._is_header(text) or not text.strip() else _text(text)

    def _end_message(self, marker: str) -> None:
        self._header = None
        self._has_role = marker == self._ends[-1]
        if marker == self._channel:
            self._rest = marker + self._rest

    def _function(self) -> str | None:
        """The function to which the message at work goes, if it is one."""
        call = _CALL.search(self._header or "")
        return call[1] if call is not None and call[1] in self._names else None

    def _calls(self, text: str) -> list[ToolCall]:
        return Harmony().parse(f"{self._function()}{self._message}{text}", (), self._special)

    def _part(self, text: str) -> list[Event]:
        if self._header is not None and self._channel + "analysis" in self._header:
            text = without_special(text)
            return [Reasoning(text)] if text else []
        return _text(text)


def _text(text: str) -> list[Event]:
    text = without_special(text)
    return [Text(text)] if text else []
