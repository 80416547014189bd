"""Reads gpt-oss's answers: several messages, each with a header."""

import re

from runtime.chat_format.calls import Event, Reasoning, Text
from runtime.chat_format.formats.harmony import Harmony
from runtime.chat_format.reader import split_at

_CALL = re.compile(r"to=functions\.([^\s<]+)")
_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>")


class HarmonyReader:
    """The channel `analysis` is reasoning; a message to a function is a call; the rest is text."""

    def __init__(self) -> None:
        self._rest = ""
        self._header: str | None = None  # of the message at work; None: it is not complete

    def push(self, text: str) -> list[Event]:
        self._rest += text
        events: list[Event] = []
        while True:
            if self._header is None:
                before, marker, rest = split_at(self._rest, ["<|message|>"])
                if marker is None:
                    return events
                self._header, self._rest = before, rest
            before, marker, rest = split_at(self._rest, _ENDS)
            if marker is None and self._is_call():
                return events  # calls are passed on whole
            events += self._part(before)
            self._rest = rest
            if marker is None:
                return events
            self._header = None

    def finish(self) -> list[Event]:
        if self._header is not None:
            return self._part(self._rest)
        header = re.sub(r"<\|\w+\|>", "", self._rest).strip()
        return [Text(self._rest)] if header and "<|" not in self._rest else []

    def _is_call(self) -> bool:
        return self._header is not None and _CALL.search(self._header) is not None

    def _part(self, text: str) -> list[Event]:
        header = self._header or ""
        call = _CALL.search(header)
        if call is not None:
            try:
                return list(Harmony().parse(f"{call[1]}<|message|>{text}", ()))
            except (ValueError, RecursionError):
                return [Text(text)]
        if not text:
            return []
        return [Reasoning(text) if "<|channel|>analysis" in header else Text(text)]
