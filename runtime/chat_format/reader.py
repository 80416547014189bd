"""Reads an answer as it is generated: its text, its reasoning, its calls."""

import re
from collections.abc import Sequence
from typing import Protocol

from runtime.chat_format.call_end import CallEnd
from runtime.chat_format.calls import Event, Reasoning, Text, Tool, ToolCall
from runtime.chat_format.formats.base import CallFormat
from runtime.chat_format.special_tokens import SpecialTokens, without_special

_SPACE = 64  # characters of white space that the beginning of a call may have


class Reader(Protocol):
    """Takes an answer piece by piece; it can be copied and pickled."""

    def push(self, piece: str) -> list[Event]:
        """Adds generated text, or a special token, which is a Special; returns what it certainly
        is."""

    def finish(self) -> list[Event]:
        """Ends the answer; returns the rest."""


class PlainReader:
    """Reads what is text alone."""

    def push(self, piece: str) -> list[Event]:
        return [Text(piece)] if piece else []

    def finish(self) -> list[Event]:
        return []


def beginning_at_end(text: str, markers: Sequence[str]) -> int:
    """Returns how many of a growing text's last characters may be the beginning of a marker."""
    longest = max(map(len, markers), default=0) - 1
    sizes = range(min(longest, len(text)), 0, -1)
    return next((n for n in sizes if any(m.startswith(text[-n:]) for m in markers)), 0)


def split_at(text: str, markers: Sequence[str]) -> tuple[str, str | None, str]:
    """Splits a growing text at the first of the markers.

    Returns what is before it, the marker and the rest; without a marker None, and as the rest what
    may be the beginning of one.
    """
    places = [(at, -len(marker), marker) for marker in markers if (at := text.find(marker)) >= 0]
    if places:
        at, _, marker = min(places)
        return text[:at], marker, text[at + len(marker) :]
    decided = len(text) - beginning_at_end(text, markers)
    return text[:decided], None, text[decided:]


class MarkedReader:
    """Reads answers whose parts are set off by marks.

    Args:
        calls: the format of calls.
        tools: the functions that may be called; none: no calls are looked for. What calls another
            is text.
        reasoning: the texts at which reasoning begins and ends; None: there is none.
        reasons: the prompt has begun the reasoning already.
        one_branch: what does not begin as a call has none: it is all text, such as JSON.
        marks_alone: no text begins with `<`, so that a mark's beginning is one that was cut.
    """

    def __init__(
        self,
        special: SpecialTokens,
        calls: CallFormat | None,
        tools: Sequence[Tool],
        reasoning: tuple[str, str] | None,
        reasons: bool,
        one_branch: bool,
        marks_alone: bool = False,
    ) -> None:
        self._marks_alone = marks_alone
        self._special = special
        self._format = calls if tools else None
        self._tools = tools
        self._names = {tool.name for tool in tools}
        self._begin, end = "", ""
        self._heads: list[str] = []
        self._only_first = one_branch
        if self._format is not None:
            self._begin = special.written(self._format.begin)
            end = special.written(self._format.end)
            heads = self._format.heads(tools)
            self._heads = [_compact(special.written(head)) for head in heads]
            self._only_first = one_branch or self._format.begins_answer
        self._call_end = CallEnd([end], self._parse)
        self._reasoning = [special.written(mark) for mark in reasoning or ()]
        self._part: type[Event] = Reasoning if reasons else Text
        self._rest = ""  # not yet decided
        self._blank = ""  # white space at the end, which a mark behind it removes
        self._begun = False  # the part has more than white space
        self._said = False  # there was a part of text that had
        self._between = ""  # white space at its end, which a further one goes on behind
        self._follows = False  # it begins behind a mark, which models set off by line breaks

    def push(self, piece: str) -> list[Event]:
        self._rest += self._special.read(piece)
        events: list[Event] = []
        while True:
            if self._part is ToolCall:
                if not self._read_call(events):
                    return events
            before, marker, self._rest = split_at(self._rest, self._markers())
            events += self._text(before)
            if marker is None:
                return events
            if self._begun and not self._may_follow_text(marker):
                events += self._text(marker)
            elif marker == self._begin:
                self._part = ToolCall  # the text goes on behind it, should it be no call
            else:
                self._enter(Reasoning if marker == self._reasoning[0] else Text)

    def finish(self) -> list[Event]:
        events: list[Event] = []
        while self._part is ToolCall:
            calls = self._call_end.read(self._rest)
            if calls and self._offered(calls):
                return [*events, *calls]
            ended = self._call_end.cut(self._rest)
            whole = ended is not None and not _is_open(ended[0])
            if calls is None and not whole and self._may_be_call():
                # Without its end, it was cut: the answer's length ended it.
                return [*events, *self._calls_before_cut(self._rest)]
            text, self._rest = ended or (self._rest, "")
            events += self._no_call(text)
            events += self.push("")
        events += self._text("" if self._is_cut_mark() else self._rest)
        self._rest = ""
        if self._blank and self._part is Text and (self._begun or not self._said):
            events.append(Text(self._blank))
        return events

    def _read_call(self, events: list[Event]) -> bool:
        """Reads the call that has begun, if it is whole, or is none; returns whether it did."""
        if self._format is not None and self._format.begins_answer and not self._may_be_call():
            events += self._no_call("")
            return True
        ended = self._call_end.find(self._rest)
        if ended is None:
            return False
        calls, rest = ended
        text, self._rest = self._rest[: len(self._rest) - len(rest)], rest
        if self._offered(calls):
            events += calls
            self._enter(Text)
        else:
            events += self._no_call(text)
        return True

    def _no_call(self, text: str) -> list[Event]:
        """The text behind the beginning of a call that is none."""
        self._part = Text
        return self._text(self._begin + text)

    def _parse(self, text: str) -> list[ToolCall]:
        return [] if self._format is None else self._format.parse(text, self._tools, self._special)

    def _calls_before_cut(self, text: str) -> list[ToolCall]:
        """The whole calls of several that share one end, where the last was cut."""
        between, close = (self._format and self._format.joint) or ("", "")
        between = self._special.written(between)
        at = text.rfind(between) if between else -1
        while at >= 0:
            calls = self._call_end.read(text[:at] + close)
            if calls and self._offered(calls):
                return calls
            at = text.rfind(between, 0, at)
        return []

    def _offered(self, calls: Sequence[ToolCall]) -> bool:
        return bool(calls) and all(call.name in self._names for call in calls)

    def _may_be_call(self) -> bool:
        """Whether what follows the beginning of a call begins as calls of the functions do."""
        longest = max(map(len, self._heads), default=0)
        text = _compact(self._rest[: 2 * longest + _SPACE])
        return any(text.startswith(head) or head.startswith(text) for head in self._heads)

    def _is_cut_mark(self) -> bool:
        begins = self._marks_alone and not self._begun and self._rest.startswith("<")
        return begins and beginning_at_end(self._rest, self._markers()) == len(self._rest)

    def _markers(self) -> list[str]:
        markers = [] if self._begun else self._reasoning[:1]  # some begin it again
        if self._part is Reasoning:
            return [*markers, self._reasoning[1]]
        if self._begin and not (self._begun and self._only_first):
            markers.append(self._begin)
        return markers

    def _may_follow_text(self, marker: str) -> bool:
        if self._part is Reasoning:
            return marker == self._reasoning[1]
        return marker == self._begin and not self._only_first

    def _enter(self, part: type[Event]) -> None:
        if self._part is not Reasoning:  # of text, whose call leaves it as it is
            self._between = self._blank
        self._part = part
        self._blank = self._between if part is Text and self._said else ""
        self._begun = False
        self._follows = not (part is Text and self._said)

    def _text(self, text: str) -> list[Event]:
        """Passes on a part's text, without the white space between it and marks: of text behind a
        mark without line breaks alone, for an indent may be what it says."""
        text = without_special(text)
        if not self._begin and not self._reasoning:
            return [Text(text)] if text else []
        text = self._blank + text
        if not self._begun and self._part is Reasoning:
            text = text.lstrip()
        elif not self._begun and self._follows:
            text = text.lstrip("\r\n")
        kept = text.rstrip()
        self._blank = text[len(kept) :]
        if not kept:
            return []
        self._begun = True
        self._said = self._said or self._part is Text
        return [Reasoning(kept) if self._part is Reasoning else Text(kept)]


def _is_open(call: str) -> bool:
    """Whether a mark at the end of a call is spelled in a string of it, or in a parameter."""
    quotes = re.sub(r"\\.", "", call, flags=re.DOTALL).count('"')
    return quotes % 2 == 1 or call.rfind("<parameter=") > call.rfind("</parameter>")


def _compact(text: str) -> str:
    return "".join(text.split())
