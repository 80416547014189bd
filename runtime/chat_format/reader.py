"""Reads an answer as it is generated: its text, its reasoning, its calls."""

from collections.abc import Sequence
from typing import Protocol

from runtime.chat_format.call_end import CallEnd
from runtime.chat_format.calls import Event, Reasoning, Text, Tool, ToolCall
from runtime.chat_format.formats.base import CallFormat


class Reader(Protocol):
    """Takes an answer's text piece by piece."""

    def push(self, text: str) -> list[Event]:
        """Adds generated text; returns what it certainly is."""

    def finish(self) -> list[Event]:
        """Ends the answer; returns the rest."""


def split_at(text: str, markers: Sequence[str]) -> tuple[str, str | None, str]:
    """Splits a growing text at the first of the markers.

    Returns what is before it, the marker and the rest; without a marker None, and as the rest what
    may be the beginning of one.
    """
    found = [(at, -len(marker), marker) for marker in markers if (at := text.find(marker)) >= 0]
    if found:
        at, _, marker = min(found)
        return text[:at], marker, text[at + len(marker) :]
    longest = max((len(marker) for marker in markers), default=0)
    for size in range(min(longest - 1, len(text)), 0, -1):
        if any(marker.startswith(text[-size:]) for marker in markers):
            return text[:-size], None, text[-size:]
    return text, None, ""


class MarkedReader:
    """Reads answers whose parts are set off by marks in the text.

    Args:
        calls: the format of calls.
        tools: the functions that may be called; none: no calls are looked for.
        reasoning: the texts at which reasoning begins and ends; None: there is none.
        reasons: the prompt has begun the reasoning already.
    """

    def __init__(
        self,
        calls: CallFormat | None,
        tools: Sequence[Tool],
        reasoning: tuple[str, str] | None,
        reasons: bool,
    ) -> None:
        self._calls = calls if tools else None
        self._call_end = CallEnd(
            [calls.end] if calls is not None else [],
            lambda text: calls.parse(text, tools) if calls is not None else [],
        )
        self._reasoning = reasoning
        self._part: type[Event] = Reasoning if reasons else Text
        self._rest = ""  # not yet decided
        self._blank = ""  # white space at the end, which a mark behind it removes
        self._begun = False  # the part has more than white space

    def push(self, text: str) -> list[Event]:
        self._rest += text
        events: list[Event] = []
        while True:
            if self._part is ToolCall:
                ended = self._call_end.find(self._rest)
                if ended is None:
                    return events
                calls, self._rest = ended
                events += calls
                self._enter(Text)
            before, marker, self._rest = split_at(self._rest, self._markers())
            events += self._text(before)
            if marker is None:
                return events
            entered = self._entered_by(marker)
            if entered is ToolCall and self._begun and self._calls_begin_answers():
                events += self._text(marker)
            elif entered is ToolCall:
                self._part = ToolCall  # the text goes on behind it, should it be no call
            else:
                self._enter(entered)

    def finish(self) -> list[Event]:
        events: list[Event] = []
        while self._part is ToolCall:
            calls = self._call_end.read(self._rest)
            cut = self._call_end.cut(self._rest) if calls is None else None
            if cut is None:  # without its end, it was cut: the answer's length ended it
                return [*events, *(calls or [])]
            assert self._calls is not None
            self._part = Text
            events += self._text(self._calls.begin + cut[0])
            self._rest = cut[1]
            events += self.push("")
        events += self._text(self._rest)
        if self._blank and self._part is Text:
            events.append(Text(self._blank))
        return events

    def _markers(self) -> list[str]:
        calls, reasoning = self._calls, self._reasoning
        if self._part is Reasoning:
            return [reasoning[1]] if reasoning is not None else []
        markers = []
        if reasoning is not None and not self._begun:
            markers.append(reasoning[0])
        if calls is not None and not (self._begun and self._calls_begin_answers()):
            markers.append(calls.begin)
        return markers

    def _calls_begin_answers(self) -> bool:
        return self._calls is not None and self._calls.begins_answer

    def _entered_by(self, marker: str) -> type[Event]:
        if self._part is Reasoning:
            return Text
        is_call = self._calls is not None and marker == self._calls.begin
        return ToolCall if is_call else Reasoning

    def _enter(self, part: type[Event]) -> None:
        self._part = part
        self._blank = ""
        self._begun = False

    def _text(self, text: str) -> list[Event]:
        """Passes on a part's text without white space at its edges, if there are marks."""
        if self._calls is None and self._reasoning is None:
            return [Text(text)] if text else []
        text = self._blank + text
        if not self._begun:
            text = text.lstrip()
        kept = text.rstrip()
        self._blank = text[len(kept) :]
        if not kept:
            return []
        self._begun = True
        return [Reasoning(kept) if self._part is Reasoning else Text(kept)]
