"""JSON documents with one node replaced or removed: what a damaged download or a careless edit
makes of a file."""

import copy
import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**64, -(2**63), 0.5, float("inf"), float("nan")),
    *("", "x", "5", "▁", "\ud800", "\x00", "é" * 300),
    *([], [0], [None], ["x"], [[]], [{}], {}, {"x": 0}, {"type": "x"}, {"": None}),
)
_REMOVED = object()
_LISTED = 12  # children of one node that are looked at

Path = tuple[str | int, ...]


def nodes(document: Any, path: Path = ()) -> Iterator[Path]:
    """The places in a document, the root first; of a long list or object only some children."""
    yield path
    keys = list(document) if isinstance(document, dict) else []
    if isinstance(document, list):
        keys = list(range(len(document)))
    few = _LISTED // 3
    if len(keys) > _LISTED:
        middle = len(keys) // 2
        keys = keys[:few] + keys[middle : middle + few] + keys[-few:]
    for key in keys:
        yield from nodes(document[key], (*path, key))


def mutations(document: Any) -> list[tuple[Path, Any]]:
    """Every node with every value in its place, and without it; in an order of their own."""
    found = [(path, value) for path in nodes(document) for value in (*VALUES, _REMOVED)]
    random.Random(0).shuffle(found)
    return found


def mutated(document: Any, path: Path, value: Any) -> Any:
    """A copy of the document with one change; what does not change is shared with it."""
    if not path:
        return None if value is _REMOVED else value
    changed = copy.copy(document)
    key = path[0]
    if len(path) > 1:
        changed[key] = mutated(document[key], path[1:], value)
    elif value is _REMOVED:
        del changed[key]
    else:
        changed[key] = value
    return changed
