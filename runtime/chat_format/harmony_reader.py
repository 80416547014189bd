"""Reads gpt-oss's answers: several messages, each with a header."""

import re

from runtime.chat_format.call_end import CallEnd
from runtime.chat_format.calls import Event, Reasoning, Text, ToolCall
from runtime.chat_format.formats.harmony import Harmony
from runtime.chat_format.reader import split_at

_CALL = re.compile(r"to=functions\.([^\s<]+)")
_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>")


class HarmonyReader:
    """The channel `analysis` is reasoning; a message to a function is a call; the rest is text."""

    def __init__(self) -> None:
        self._rest = ""
        self._header: str | None = None  # of the message at work; None: it is not complete
        self._call_end = CallEnd(_ENDS, self._calls)

    def push(self, text: str) -> list[Event]:
        self._rest += text
        events: list[Event] = []
        while True:
            if self._header is None:
                before, marker, rest = split_at(self._rest, ["<|message|>"])
                if marker is None:
                    return events
                self._header, self._rest = before, rest
            if self._is_call():
                ended = self._call_end.find(self._rest)
                if ended is None:
                    return events  # calls are passed on whole
                calls, self._rest = ended
                events += calls
                self._header = None
                continue
            before, marker, rest = split_at(self._rest, _ENDS)
            events += self._part(before)
            self._rest = rest
            if marker is None:
                return events
            self._header = None

    def finish(self) -> list[Event]:
        if self._is_call():
            calls = self._call_end.read(self._rest)
            return [Text(self._rest)] if calls is None else [*calls]
        if self._header is not None:
            return self._part(self._rest)
        header = re.sub(r"<\|\w+\|>", "", self._rest).strip()
        return [Text(self._rest)] if header and "<|" not in self._rest else []

    def _is_call(self) -> bool:
        return self._header is not None and _CALL.search(self._header) is not None

    def _calls(self, text: str) -> list[ToolCall]:
        call = _CALL.search(self._header or "")
        return Harmony().parse(f"{call[1]}<|message|>{text}", ()) if call is not None else []

    def _part(self, text: str) -> list[Event]:
        if not text:
            return []
        analysis = "<|channel|>analysis" in (self._header or "")
        return [Reasoning(text) if analysis else Text(text)]
