"""Answers as models write them: in pieces, in which special tokens are their own."""

import re
from collections.abc import Collection

from runtime.binding.answer_stream import Special


def pieces_of(text: str, special: Collection[str], size: int = 1 << 30) -> list[str]:
    """The text in pieces of `size` characters at most, without cutting `special`."""
    parts = re.split("(" + "|".join(map(re.escape, special)) + ")", text) if special else [text]
    pieces: list[str] = []
    for n, part in enumerate(parts):
        spelled = [part[at : at + size] for at in range(0, len(part), size)]
        pieces += [Special(part)] if n % 2 else spelled
    return pieces
