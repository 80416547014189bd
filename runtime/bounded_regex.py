"""Python's regular expressions in bounded time, for patterns of others.

`re` goes back and tries again, for longer than anyone waits if a pattern has repeats of repeats.
Here all places that a part of a pattern can end at are found together, as the bits of an integer.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

MOST_STEPS = 100_000  # of parts of a pattern, for one text; a module's name takes hundreds

Item = tuple[Any, Any]  # of re's own parser: a kind and what belongs to it
_SINGLE = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN)
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
_ASSERTIONS = (_constants.ASSERT, _constants.ASSERT_NOT)
_AROUND = (_constants.SUBPATTERN, *_REPEATS, *_ASSERTIONS)  # their values end with what is inside
_KNOWN = (*_SINGLE, _constants.AT, _constants.BRANCH, *_AROUND)


@dataclass(frozen=True)
class BoundedRegex:
    """A regular expression without backreferences, possessive repeats and atomic groups.

    Raises:
        ValueError: it is none, has one of these, or, from its methods, takes more than MOST_STEPS
            for a text. The message goes on after the pattern.
    """

    pattern: str

    def __post_init__(self) -> None:
        _ = self._parsed

    def fullmatch(self, text: str) -> bool:
        """Whether it describes a complete text."""
        return bool(self._ends(text, 1) >> len(text))

    def match(self, text: str) -> bool:
        """Whether it describes how a text begins."""
        return self._ends(text, 1) != 0

    def search(self, text: str) -> bool:
        """Whether it describes a part of a text."""
        return self._ends(text, (2 << len(text)) - 1) != 0

    @cached_property
    def _parsed(self) -> Any:
        try:
            re.compile(self.pattern)
            parsed = _parser.parse(self.pattern)
            for kind in _kinds(parsed):
                if kind not in _KNOWN:
                    said = f"has a part of the kind {str(kind).lower()}, which is not supported"
                    raise ValueError(said)
            return parsed
        except (re.error, OverflowError) as error:
            raise ValueError(f"is not a regular expression ({error})") from None
        except RecursionError:
            raise ValueError("is not a regular expression (it is too deep)") from None

    def _ends(self, text: str, starts: int) -> int:
        return _Walk(text).sequence(self._parsed, self._parsed.state.flags, starts)


def _kinds(items: Iterable[Item]) -> Iterator[Any]:
    """Those of all parts."""
    for kind, value in items:
        yield kind
        inside = value[1] if kind is _constants.BRANCH else [value[-1]] if kind in _AROUND else []
        for part in inside:
            yield from _kinds(part)


@dataclass
class _Walk:
    """Of a text: sets of places in it are the bits of integers."""

    text: str
    steps: int = 0
    _known: dict[int, int] = field(default_factory=dict)  # where single characters and edges are

    def sequence(self, items: Iterable[Item], flags: int, starts: int) -> int:
        """Where the items end, one after the other."""
        for item in items:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise ValueError("takes too long: write it without repeats of what repeats")
            starts = self._item(item, flags, starts) if starts else 0
        return starts

    def _item(self, item: Item, flags: int, starts: int) -> int:
        kind, value = item
        if kind in _SINGLE:
            return (starts & self._where(item, flags, range(len(self.text)))) << 1
        if kind is _constants.AT:
            return starts & self._where(item, flags, range(len(self.text) + 1))
        if kind is _constants.BRANCH:
            return reduce(or_, (self.sequence(branch, flags, starts) for branch in value[1]))
        if kind is _constants.SUBPATTERN:
            _, added, removed, inside = value
            return self.sequence(inside, (flags | added) & ~removed, starts)
        if kind in _REPEATS:
            least, most, part = value
            return self._repeat(least, most, part, flags, starts)
        direction, part = value
        return self._assert(kind is _constants.ASSERT, direction, part, flags, starts)

    def _where(self, item: Item, flags: int, places: range) -> int:
        """The places where `re` finds an item that has no parts."""
        if id(item) not in self._known:
            state = _parser.State()
            state.flags = flags
            compiled = _compiler.compile(_parser.SubPattern(state, [item]), flags)
            found = (1 << place for place in places if compiled.match(self.text, place))
            self._known[id(item)] = sum(found)
        return self._known[id(item)]

    def _repeat(self, least: int, most: int, part: Any, flags: int, starts: int) -> int:
        # Once nothing changes, further repeats change nothing.
        for _ in range(least):
            before, starts = starts, self.sequence(part, flags, starts)
            if starts in (0, before):
                break
        found = new = starts
        for _ in range(min(most - least, len(self.text) + 1)):
            new = self.sequence(part, flags, new) & ~found
            if not new:
                break
            found |= new
        return found

    def _assert(self, wanted: bool, direction: int, part: Any, flags: int, starts: int) -> int:
        before = part.getwidth()[0] if direction < 0 else 0  # what lies behind has one width
        found = 0
        for place in range(len(self.text) + 1):
            if starts >> place & 1:
                begin = 1 << place >> before
                ends = self.sequence(part, flags, begin)
                holds = ends >> place & 1 if direction < 0 else ends
                found |= (bool(holds) == wanted) << place
        return found
