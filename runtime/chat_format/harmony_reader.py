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


class HarmonyReader:
    """The channel `analysis` is reasoning; a message to a function is a call; the rest is text.

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
        self._call_end = CallEnd(self._ends, self._calls)

    def push(self, piece: str) -> list[Event]:
        self._rest += self._special.read(piece)
        events: list[Event] = []
        while True:
            if self._header is None:
                before, marker, rest = split_at(self._rest, [self._message])
                if marker is None:
                    return events
                self._header, self._rest = before, rest
            if self._function() is not None:
                ended = self._call_end.find(self._rest)
                if ended is None:
                    return events  # calls are passed on whole
                calls, rest = ended
                message = self._rest[: len(self._rest) - len(rest)]
                events += calls or _text(message)
                self._header, self._rest = None, rest
                continue
            before, marker, self._rest = split_at(self._rest, self._ends)
            events += self._part(before)
            if marker is None:
                return events
            self._header = None

    def finish(self) -> list[Event]:
        rest, self._rest = self._rest, ""
        if self._function() is not None:
            calls = self._call_end.read(rest)
            whole = calls is not None or self._call_end.cut(rest) is not None
            return [*(calls or (_text(rest) if whole else []))]
        if self._header is not None:
            return self._part(rest)
        begun = self._channel in rest or self._ends[-1] in rest  # a header that was cut
        return [] if begun or not rest.strip() else _text(rest)

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
