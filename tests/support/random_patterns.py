"""Split patterns of groups, flags, classes and quantifiers, and texts to split, from a seed."""

import random

_LETTERS = "aAbBkKsSzé1 \n'_"
_TEXT = "aAbBkKsSzZéÉ1２ \n\t'_-\u017f\u212aßfi"
_CLASSES = (
    *("[a-c]", "[^a]", "[A-Z]", r"[^\s]", r"[\d_]", r"[b-y&&[^s]]", "[[:upper:]]", "[a-zA-Z]"),
    *(r"\s", r"\S", r"\d", r"\w", r"\p{L}", r"\p{Lu}", r"\P{L}", r"\p{^Ll}", ".", r"\n", r"\x41"),
)
_FLAGS = ("i", "i", "m", "im", "-i", "i-m", "-m", "m-i", "-im")
_QUANTIFIERS = (
    *("?", "*", "+", "+", "{2}", "{1,3}", "{2,}", "{0,2}", "??", "*?", "+?", "{1,2}?", "{2}?"),
    *("?+", "*+", "++", "{1,2}+"),
)


def random_pattern(chance: random.Random) -> str:
    return _alternatives(chance, 3)


def random_texts(chance: random.Random, count: int) -> list[str]:
    return ["".join(chance.choices(_TEXT, k=chance.randrange(1, 14))) for _ in range(count)]


def _alternatives(chance: random.Random, depth: int) -> str:
    return "|".join(_sequence(chance, depth) for _ in range(chance.choice((1, 1, 2, 3))))


def _sequence(chance: random.Random, depth: int) -> str:
    return "".join(_part(chance, depth) for _ in range(chance.choice((1, 2, 2, 3))))


def _part(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if kind < 0.12:
        return f"(?{chance.choice(_FLAGS)})"
    if kind < 0.17:
        return f"(?{chance.choice('!=')}{_atom(chance)})"
    if kind < 0.19:
        return "$"
    group = kind < 0.4 and depth > 0
    atom = _group(chance, depth - 1) if group else _atom(chance)
    return atom + (chance.choice(_QUANTIFIERS) if chance.random() < 0.35 else "")


def _group(chance: random.Random, depth: int) -> str:
    begin = chance.choice(("(", "(?:", "(?:", f"(?{chance.choice(_FLAGS)}:"))
    return f"{begin}{_alternatives(chance, depth)})"


def _atom(chance: random.Random) -> str:
    return chance.choice(_LETTERS) if chance.random() < 0.6 else chance.choice(_CLASSES)
