"""Regular expressions, choices and GBNF as constraints."""

import itertools
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.constraints import BEGINS, ENDS, MATCHES, REFUSED, accepts, places, refusal

ALPHABET = "ab1-é\n"
ATOMS = ["a", "b", "é", "1", r"\d", r"\w", ".", "[ab]", "[^a]", "[a-c1-]", r"\-", r"\n", r"[\d-]"]
ATOM = st.sampled_from(ATOMS)
QUANTIFIER = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "+?"])


def grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequence = st.lists(inner, min_size=0, max_size=3).map("".join)
    group = st.lists(sequence, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})")
    return st.tuples(group, QUANTIFIER).map("".join)


REGEX = st.recursive(st.tuples(ATOM, QUANTIFIER).map("".join), grouped, max_leaves=8)


def as_python(regex: str) -> "re.Pattern[str]":
    """The same for Python's re: . is no line terminator there either, but \\d and \\w are ASCII."""
    return re.compile(regex, re.ASCII)


def texts(seed: int) -> list[str]:
    chance = random.Random(seed)
    found = ["".join(chance.choices(ALPHABET, k=chance.randint(0, 6))) for _ in range(150)]
    return ["", *found]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(regex=REGEX, seed=st.integers(0, 1000))
def test_whole_matches_are_those_of_python(cpp_build: Path, regex: str, seed: int) -> None:
    pattern, given_texts = as_python(regex), texts(seed)
    found = places(cpp_build, "regex", regex, given_texts)
    matches = [pattern.fullmatch(text) is not None for text in given_texts]
    if isinstance(found, str):
        assert found == "the regular expression has no text that matches" and not any(matches)
        return
    assert [place in (MATCHES, ENDS) for place in found] == matches


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    parts=st.lists(
        st.tuples(st.sampled_from(["", "^"]), REGEX, st.sampled_from(["", "$"])),
        min_size=1,
        max_size=2,
    ),
    seed=st.integers(0, 1000),
)
def test_patterns_are_searched(
    cpp_build: Path, parts: list[tuple[str, str, str]], seed: int
) -> None:
    regex = "|".join(map("".join, parts))
    pattern = as_python(regex.replace("$", r"\Z"))
    strings = texts(seed)
    found = places(
        cpp_build,
        "json-schema",
        {"type": "string", "pattern": regex},
        ['"' + text.replace("\n", "\\n") + '"' for text in strings],
    )
    assert isinstance(found, list), found
    expected = [pattern.search(text) is not None for text in strings]
    assert [place == ENDS for place in found] == expected


PLACES = [
    (r"\d{3}-\d{4}", "555-", BEGINS),
    (r"\d{3}-\d{4}", "555-1234", ENDS),
    ("(?<year>\\d\\d)x", "12x", ENDS),
    ("[\\u00e9\\u{1F600}]\\x41\\cJ", "😀A\n", ENDS),
    ("[^\\s]", "\u3000", REFUSED),
    ("\\s\\S", "\u2028x", ENDS),
    (".", "\u2028", REFUSED),
    (".", "\r", REFUSED),
    ("[^]x", "\nx", ENDS),
    ("^(?:^a|b)$", "a", ENDS),
    ("]}", "]}", ENDS),
    ("(a|a)*b", "a" * 2000, BEGINS),
    ("(?:a?){50}a{50}", "a" * 100, ENDS),
    ("(?:(?:(?:a{1000}){1000}){1000})b", "a" * 500, BEGINS),
    ("a{0,1000000000}", "a" * 5000, MATCHES),
    ("(?:a|b)*a(?:a|b){30}", "ba" * 200, MATCHES),
]


@pytest.mark.parametrize(("regex", "text", "place"), PLACES)
def test_texts(cpp_build: Path, regex: str, text: str, place: str) -> None:
    assert places(cpp_build, "regex", regex, [text]) == [place]


REFUSALS = [
    ("(?<=b)a", "is refused at offset 0: a lookbehind is not supported"),
    (r"(a)\1", r"is refused at offset 3: the back reference \1 is not supported"),
    (r"(?<n>a)\k<n>", r"is refused at offset 7: the back reference \k is not supported"),
    ("(?<!b)a", "is refused at offset 0: a negative lookbehind is not supported"),
    (r"a\b*", "is refused at offset 3: an anchor or a lookahead cannot be repeated"),
    ("(?=a)+", "is refused at offset 5: an anchor or a lookahead cannot be repeated"),
    (r"[\B]", r"is refused at offset 1: the escape \B has no meaning"),
    (r"\q", r"is refused at offset 0: the escape \q has no meaning"),
    ("(a", "is refused at offset 0: a group is not closed"),
    ("a)", "is refused at offset 1: a group is closed that was not opened"),
    ("[a", "is refused at offset 0: a class is not closed"),
    (
        "[z-a]",
        "is refused at offset 1: a range of characters is not from a smaller to a larger one",
    ),
    ("*a", "is refused at offset 0: nothing stands before *"),
    ("a**", "is refused at offset 2: a quantifier follows another"),
    ("a{2,1}", "is refused at offset 1: the bounds of a repetition are in the wrong order"),
    ("a{x}", r"is refused at offset 1: a { has no meaning here: write \{"),
    ("a{2000000000}", "is refused at offset 1: a repetition has more than 1000000000 times"),
    ("\\", "is refused at offset 0: a backslash ends it"),
    ("\\ud800", "is refused at offset 0: a surrogate is alone"),
    ("(" * 300 + ")" * 300, "at offset 201: groups are nested in more than 200 levels"),
]


@pytest.mark.parametrize(("regex", "end"), REFUSALS)
def test_refusals(cpp_build: Path, regex: str, end: str) -> None:
    said = refusal(cpp_build, "regex", regex)
    assert said.startswith("the regular expression '" + regex[:60]) and said.endswith(end)


@pytest.mark.parametrize(
    ("regex", "sentence"),
    [
        (
            "a(^b)",
            "the anchor ^ at offset 2 of the regular expression is not at its edge: only there it "
            "is supported",
        ),
        (
            "(a(?=b))*c",
            "the lookahead at offset 2 of the regular expression is within a group that is "
            "repeated, or that more follows: only at the end of the expression it is supported",
        ),
        (
            r"x(?=\ba)a",
            "the lookahead at offset 1 of the regular expression stands beside \\b or \\B: only "
            "behind ^ that is supported",
        ),
    ],
)
def test_an_anchor_inside_is_refused(cpp_build: Path, regex: str, sentence: str) -> None:
    assert refusal(cpp_build, "regex", regex) == sentence


ASSERTIONS = [
    r"\bab\b",
    r"\B-\B",
    r"^\b|a\b$",
    r"(\ba|b)*c",
    r"a(?!b)",
    r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{3,}$",
    "^(?!.*--)[a-z-]+$",
    r"^(?!ab$|b$)\w+$",
    "(?=a)b|c",
    "(?!a)(?!b)[a-d]$",
    "^(?:(?=a)ab|c)$",
    r"^(?!.*\bb\b).*a",
    r"^a(?:b|(?!.*-)(?=[aA])[aA]+(1(?=\w)b?A?)?)?$",
    "^(?:(?=a)ab|1(?:A$)?)",
]


@pytest.mark.parametrize("regex", ASSERTIONS)
def test_word_boundaries_and_lookaheads(cpp_build: Path, regex: str) -> None:
    words = ["".join(word) for n in range(5) for word in itertools.product("aA1b- ", repeat=n)]
    words = [*words[::3], "c", "ab", "b c", "bac", "abA1", 'a"ab"', "\nab\n", "éab", "éb", "a--b"]
    pattern = re.compile(re.sub(r"\$", r"\\Z", regex), re.ASCII)
    expected = [pattern.search(word) is not None for word in words]
    assert True in expected and False in expected
    schema = {"type": "string", "pattern": regex}
    texts = [json.dumps(word, ensure_ascii=False) for word in words]
    assert accepts(cpp_build, "json-schema", schema, texts) == expected


def test_a_text_that_is_not_utf8_is_refused(cpp_build: Path) -> None:
    assert refusal(cpp_build, "regex", b"\xff").endswith("at offset 0: it is not UTF-8")
    assert places(cpp_build, "regex", ".*", [b"a\xc3", b"a\xff"]) == [BEGINS, REFUSED]


def test_choices(cpp_build: Path) -> None:
    given_texts = ["yes", "no", "not sure", "n", "maybe"]
    found = places(cpp_build, "choice", ["yes", "no", "not sure", "no"], given_texts)
    assert found == [ENDS, MATCHES, ENDS, BEGINS, REFUSED]
    for wrong in ([], [1], {"a": "b"}, "x"):
        sentence = "the choice must be a JSON array of one string or more"
        assert refusal(cpp_build, "choice", wrong if wrong != "x" else '"x"') == sentence


@pytest.mark.parametrize(
    ("kind", "constraint", "sentence"),
    [
        ("json-schema", "", "the JSON schema cannot be read"),
        ("regex", "", "the regular expression is empty: give one, or leave it out"),
        ("choice", ["a", ""], "the choice has an empty text: leave it out"),
        ("grammar", "", "the grammar has no rule named root"),
        ("grammar", 'root ::= %regex ""', "the regular expression is empty"),
    ],
)
def test_an_empty_constraint_is_refused(
    cpp_build: Path, kind: str, constraint: object, sentence: str
) -> None:
    assert sentence in refusal(cpp_build, kind, constraint)


ARITHMETIC = """
# sums of products
root  ::= (expr "=" ws term "\\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \\t\\n]*
"""
LIST = 'root ::= item{2,3}\nitem ::= "- " [^\\r\\n\\x0b\\u2028]+ "\\n"'
JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""  # the form of llama.cpp's own

GRAMMARS = [
    (ARITHMETIC, "a1 +(b*2) = 3\n", MATCHES),
    (ARITHMETIC, "a1 + = ", REFUSED),
    (LIST, "- one\n- two\n", MATCHES),
    (LIST, "- one\n- é\n- three\n", ENDS),
    (LIST, "- one\n\n", REFUSED),
    (JSON, '{"a": [1, {"b": "\\u00e9"}], "c":\nnull}', MATCHES),
    (JSON, '{"a" 1}', REFUSED),
    ('root ::= a | "x" b\na ::= "x" "y"\nb ::= . c?\nc ::= "c"*', "xy", MATCHES),
    ('root ::= "x" root "a" | "x" root "b" | ""', "x" * 200 + "ab" * 100, ENDS),
    ('root ::= ("a" | "a")* root | "b"', "a" * 300 + "b", ENDS),
]


@pytest.mark.parametrize(("grammar", "text", "place"), GRAMMARS)
def test_gbnf(cpp_build: Path, grammar: str, text: str, place: str) -> None:
    assert places(cpp_build, "grammar", grammar, [text]) == [place]


GBNF_REFUSALS = [
    ("a ::= b", "the grammar is not valid at line 1, column 7: the rule b is used here, but is "
     "nowhere defined"),
    ('a ::= "b"', "the grammar has no rule named root: it is where texts begin"),
    ('root ::= "b', "the grammar is not valid at line 1, column 10: a text is not closed"),
    ('root ::= "b"\nroot ::= "c"', "the grammar is not valid at line 2, column 1: the rule root is "
     "defined twice"),
    ('root ::= ("b"', "the grammar is not valid at line 1, column 10: a group is not closed"),
    ("root ::= [a", "the grammar is not valid at line 1, column 10: a class is not closed"),
    ("root = x", "the grammar is not valid at line 1, column 6: ::= is missing"),
    ('root ::= root "a" | "b"', "the grammar has the rule root, which can begin with itself: write "
     "the repetition another way"),
    ('root ::= x? root "a" | "b"\nx ::= "x"', "the grammar has the rule root, which can begin with "
     "itself: write the repetition another way"),
    ('root ::= "a" root', "the grammar has no text that matches"),
    ('root ::= "\\q"', "the grammar is not valid at line 1, column 11: a backslash is followed by "
     "no escape"),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "sentence"), GBNF_REFUSALS)
def test_gbnf_refusals(cpp_build: Path, grammar: str, sentence: str) -> None:
    assert refusal(cpp_build, "grammar", grammar) == sentence


def test_recursion_at_the_end_needs_no_stack(cpp_build: Path) -> None:
    grammar = 'root ::= "a" root | "b"'
    assert accepts(cpp_build, "grammar", grammar, ["a" * 100_000 + "b"]) == [True]
