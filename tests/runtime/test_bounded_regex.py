"""Regular expressions in bounded time say what `re` says, where that ends."""

import random
import re

import pytest

from runtime.bounded_regex import BoundedRegex
from runtime.chat_format.allowed import allows
from runtime.chat_format.schemas import unlisted_place

ATOMS = ("a", "b", "B", "é", ".", r"\.", r"\w", r"\d", "[a-c]", "[^a]", r"[\s.]", "_")
EDGES = ("^", "$", r"\b", r"\B", r"\Z", r"\A", "(?<=a)", "(?<!b.)", r"(?<=\b)", "(?<!^)")
GROUPS = ("({})", "(?:{})", "(?i:{})", "(?={})", "(?!{})", "(?s:{})", "(?-i:{})", "(?P<n>{})")
REPEATS = ("*", "+", "?", "{2}", "{1,2}", "*?", "+?", "{0,3}?", "{2,}")


def pattern(chance: random.Random, depth: int = 2) -> str:
    return "|".join(sequence(chance, depth) for _ in range(chance.choice((1, 1, 2))))


def sequence(chance: random.Random, depth: int) -> str:
    made = ""
    for _ in range(chance.randrange(1, 4)):
        kind = chance.random()
        if kind < 0.1:
            made += chance.choice(EDGES)
            continue
        deeper = kind < 0.5 and depth > 0
        made += (
            chance.choice(GROUPS).format(pattern(chance, depth - 1))
            if deeper
            else chance.choice(ATOMS)
        )
        made += chance.choice(REPEATS) if chance.random() < 0.35 else ""
    return made


def test_random_patterns() -> None:
    chance = random.Random(1)
    compared = 0
    while compared < 1000:
        made = pattern(chance)
        try:
            reference = re.compile(made)
        except re.error:  # a name twice, or something repeated that cannot be
            continue
        ours = BoundedRegex(made)
        text = "".join(chance.choices("abBé. x_1\nA", k=chance.randrange(6)))
        for name in ("fullmatch", "match", "search"):
            said = getattr(reference, name)(text) is not None
            assert getattr(ours, name)(text) == said, (made, text, name)
        compared += 1


@pytest.mark.parametrize(
    ("endless", "text"),
    [("(a+)+$", "a" * 60 + "!"), ("(.*)*(.*)*(.*)*x", "a" * 1000), ("(?:(?:a{99}){99}){99}", "a")],
)
def test_what_never_ends_elsewhere(endless: str, text: str) -> None:
    assert not BoundedRegex(endless).fullmatch(text)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ("(", "is not a regular expression (missing ), unterminated subpattern at position 0)"),
        ("a{99999999999}", "is not a regular expression (the repetition number is too large)"),
        ("(" * 5000 + ")" * 5000, "is not a regular expression (it is too deep)"),
        ("(" * 40 + "a" + "{1,2})" * 40, "takes too long: write it without repeats of what"),
        (r"(a)\1", "has a part of the kind groupref, which is not supported"),
        ("(?>a)b", "has a part of the kind atomic_group, which is not supported"),
        ("a++b", "has a part of the kind possessive_repeat, which is not supported"),
    ],
)
def test_what_is_refused(refused: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        BoundedRegex(refused).search("a" * 50)
    assert reason in str(caught.value)


def test_patterns_of_a_client() -> None:
    """Of arguments that a model writes; one that cannot be decided says nothing."""
    assert not allows({"pattern": "^(a+)+$"}, "a" * 60 + "!", {})
    for undecided in ("(", "a{99999999999}", r"(a)\1", 5):
        assert allows({"pattern": undecided}, "x", {})
    schema = {"patternProperties": {"(": {}, "^(x+)+$": {}, "^y": {}}}
    assert unlisted_place("y" + "x" * 60 + "!", schema) == "#/patternProperties/^y"
