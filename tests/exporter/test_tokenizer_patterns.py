"""Generated split patterns, compiled: they split as `tokenizers` does, or are refused by name."""

import random

import pytest
from support.random_patterns import random_pattern, random_texts
from support.tiers import soaked
from tokenizers import Regex, normalizers
from tokenizers.pre_tokenizers import Split

from exporter.tokenizer import TokenizerError
from exporter.tokenizer.code_points import every_character, letter, matching, of_text
from exporter.tokenizer.dfa import MATCH, Automaton, compile_automaton
from exporter.tokenizer.pattern import parse_pattern

CLASSES = ("(?i:s)", r"[^\s\p{L}\p{N}]", r"\p{N}", "[\u4000\ud7ff\ue000\U0010ffff]")
ALWAYS, IN_ALL, EACH = 200, 10_000, 50
REFUSED = (
    *("the empty text", "a possessive quantifier after", "regardless of case"),
    "needs more than",
)


def pieces(splitter: Automaton, text: str) -> list[str]:
    """The matches and what lies between them, as the C++ loop finds them."""
    table = splitter.transitions.reshape(-1, splitter.num_classes + 1).tolist()
    blocks = splitter.classes.reshape(-1, 128)
    classes = [int(blocks[splitter.blocks[ord(one) >> 7], ord(one) & 127]) for one in text]
    classes.append(splitter.num_classes)
    found, done, start = [], 0, 0
    while start < len(text):
        state, end = 1, start
        for at in range(start, len(classes)):
            transition = table[state][classes[at]]
            end = at if transition & MATCH else end
            state = transition & ~MATCH
            if not state:
                break
        if end > start:
            found += [text[done:start], text[start:end]]
            done = end
        start = max(end, start + 1)
    return [piece for piece in (*found, text[done:]) if piece]


def compiled(pattern: str) -> Automaton | None:
    """None: it is refused for one of the reasons above."""
    try:
        return compile_automaton(parse_pattern(pattern, ruby_syntax=True))
    except TokenizerError as error:
        assert any(reason in str(error) for reason in REFUSED), error
        return None


@pytest.mark.check
@pytest.mark.parametrize("first", [*range(0, ALWAYS, EACH), *soaked(range(ALWAYS, IN_ALL, EACH))])
def test_random_patterns(first: int) -> None:
    split = 0
    for seed in range(first, first + EACH):
        chance = random.Random(seed)
        pattern, texts = random_pattern(chance), random_texts(chance, 30)
        try:
            oracle = Split(Regex(pattern), "isolated")
        except Exception:  # not a pattern: the library raises nothing better
            continue
        automaton = compiled(pattern)
        if automaton is None:
            continue
        split += 1
        for text in texts:
            expected = [piece for piece, _ in oracle.pre_tokenize_str(text)]
            assert pieces(automaton, text) == expected, (pattern, text)
    assert split > EACH // 3


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a(?i)b|c", "aBCcbAcaC"),
        ("(?i)a|b(?-i)c|d", "ABcbCDdBD"),
        ("(?:a(?i)b|c)d|B", "aBdCdacdaCdaCDBb"),
        ("(?i:'s|'t)|(?m).", "'S'ſ\n"),
        (r"(?im)\p{L}.|\n", "a\nbb\n"),
        ("a{,2}b", "aaab"),
    ],
)
def test_flags_hold_to_the_end_of_their_group(pattern: str, text: str) -> None:
    automaton = compiled(pattern)
    assert automaton is not None
    expected = [piece for piece, _ in Split(Regex(pattern), "isolated").pre_tokenize_str(text)]
    assert pieces(automaton, text) == expected


@pytest.mark.parametrize(
    "pattern",
    ["(?i)ss", "(?i)(?:f)i", r"(?i)\x73s", "(?i:ß)", r"(?i)[\p{L}]", "(?i)(as)s", "(?i)a|fi"],
)
def test_letters_that_are_several_are_refused(pattern: str) -> None:
    with pytest.raises(TokenizerError, match="regardless of case"):
        parse_pattern(pattern, ruby_syntax=True)


@pytest.mark.parametrize(("pattern", "flag"), [("(?x)a b", "x"), ("(?i:a(?W)b)", "W")])
def test_other_flags_are_named(pattern: str, flag: str) -> None:
    with pytest.raises(TokenizerError, match=f"the flag {flag} in"):
        parse_pattern(pattern, ruby_syntax=True)


@pytest.mark.parametrize("atom", CLASSES)
def test_a_class_is_what_the_library_matches_in_a_text_of_all_characters(atom: str) -> None:
    others = normalizers.Replace(Regex(f"(?:{atom})+"), "").normalize_str(every_character())
    members = of_text(every_character()) & ~of_text(others)
    assert members.any() and (members == matching(atom, ruby_syntax=True)).all()


@pytest.mark.parametrize("ruby_syntax", [True, False])
def test_a_letter_regardless_of_case_is_what_the_library_matches(ruby_syntax: bool) -> None:
    for character in "askKZ":
        whole = matching(f"(?i:{character})", ruby_syntax)
        assert (letter(character, ruby_syntax) == whole).all() and whole.sum() > 1
