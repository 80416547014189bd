"""Answers as models write them: in pieces, in which special tokens are their own."""

import re
from collections.abc import Collection

from runtime.binding.answer_stream import Special
from runtime.chat_format.calls import Event, Reasoning, Text


def joined(events: list[Event]) -> list[Event]:
    """With texts behind each other as one."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, Text | Reasoning) and type(event) is type(last):
            found[-1] = type(event)(last.text + event.text)  # type: ignore[union-attr]
        else:
            found.append(event)
    return found


def pieces_of(text: str, special: Collection[str], size: int = 1 << 30) -> list[str]:
    """The text in pieces of `size` characters at most, without cutting `special`."""
    parts = re.split("(" + "|".join(map(re.escape, special)) + ")", text) if special else [text]
    pieces: list[str] = []
    for n, part in enumerate(parts):
        spelled = [part[at : at + size] for at in range(0, len(part), size)]
        pieces += [Special(part)] if n % 2 else spelled
    return pieces
