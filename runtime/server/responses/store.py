"""The responses that clients may continue."""

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Stored:
    """A response with the messages that led to it, and its own."""

    response: dict[str, Any]
    items: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    size: int


class ResponseStore:
    """Keeps responses in memory; the ones that were used least recently go first.

    Args:
        most_bytes: of all of them, as JSON.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._stored: OrderedDict[str, Stored] = OrderedDict()

    def add(
        self,
        response: dict[str, Any],
        items: list[dict[str, Any]],
        messages: list[dict[str, Any]],
    ) -> None:
        """Keeps a response under its id.

        Args:
            items: of the request's input.
        """
        size = len(json.dumps([response, items, messages]))
        self._stored[response["id"]] = Stored(response, items, messages, size)
        self._bytes += size
        while self._bytes > self._most_bytes:
            self.remove(next(iter(self._stored)))

    def find(self, name: str) -> Stored | None:
        if name in self._stored:
            self._stored.move_to_end(name)
        return self._stored.get(name)

    def remove(self, name: str) -> bool:
        """Returns whether it was there."""
        stored = self._stored.pop(name, None)
        if stored is None:
            return False
        self._bytes -= stored.size
        return True
