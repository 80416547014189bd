"""Grammars that name special tokens and have JSON schemas in them."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer
from support.constraints import BEGINS, ENDS, MATCHES, REFUSED, forced, masks, places, refusal
from support.free_text import free_text_until

CALL = {
    "type": "object",
    "properties": {"name": {"const": "f"}, "arguments": {"type": "object"}},
    "required": ["name", "arguments"],
    "additionalProperties": False,
}
CALL_JSON = "%json " + json.dumps(CALL)


class Token(NamedTuple):
    """A token of a small vocabulary. Special ones have no text."""

    text: bytes
    name: str = ""


TOKENS = [
    Token(b"a"),
    Token(b"b"),
    Token(b'"'),
    Token("é".encode()),
    Token(b"\xff"),
    Token(b"a\xffb"),
    Token(b"<tool_call>", "<tool_call>"),
    Token(b"", "<|call|>"),
    Token(b"", '[A] "x">'),
    Token(b"", "<|end|>"),
    Token(b"", "<|stop|>"),
    Token(b""),  # no token has this id
    Token("\N{GRINNING FACE}".encode(), "<face>"),
    Token(b"<"),
]
ENDS_OF_TEXT = [9, 10]
ID = {token.name or token.text: number for number, token in enumerate(TOKENS)}


def allowed(build: Path, kind: str, constraint: object, ids: list[int]) -> list[set[int]]:
    """The tokens that are allowed at first and after each id."""
    names = [token.name for token in TOKENS]
    texts = [token.text for token in TOKENS]
    (found,) = masks(build, texts, ENDS_OF_TEXT, [(kind, constraint, ids)], names)
    return [set(np.flatnonzero(mask).tolist()) for mask in found]


def test_a_special_token_is_allowed_only_where_it_is_named(cpp_build: Path) -> None:
    ends = set(ENDS_OF_TEXT)
    assert allowed(cpp_build, "grammar", 'root ::= "a" <|call|> "b"', [0, 7, 1]) == [
        {0},
        {7},
        {1},
        ends,
    ]
    either = 'root ::= (<|call|> | <"[A] \\"x\\">"> | "a"){2}'
    assert allowed(cpp_build, "grammar", either, [8, 7]) == [{0, 7, 8}, {0, 7, 8}, ends]
    assert allowed(cpp_build, "grammar", "root ::= <[8]>+", [8, 8]) == [{8}, {8} | ends, {8} | ends]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("grammar", "root ::= .*"),
        ("grammar", "root ::= [^x]*"),
        ("grammar", "root ::= (. | <|call|>)*"),
        ("regex", r"[^x]*"),
        ("regex", r"(.|\n|\S)*"),
    ],
)
def test_no_character_is_a_special_token(cpp_build: Path, kind: str, text: str) -> None:
    """Nor is the byte that marks of special tokens begin with, which no text has."""
    of_text = {ID[name] for name in (b"a", b"b", b'"', "é".encode(), b"<", "<tool_call>", "<face>")}
    named = {7} if "call" in text else set()
    for found in allowed(cpp_build, kind, text, [0, 3, 12, 6, *named, 1]):
        assert found == of_text | named | set(ENDS_OF_TEXT)


def test_no_string_has_a_special_token(cpp_build: Path) -> None:
    of_text = {ID[name] for name in (b"a", b"b", b'"', "é".encode(), b"<", "<tool_call>", "<face>")}
    first, *inside = allowed(cpp_build, "json-schema", {"type": "string"}, [2, 0, 3])
    assert first == {2}
    assert inside == [of_text] * 3
    of_grammar = 'root ::= <|call|> %json {"type": "string"} <|call|>'
    assert allowed(cpp_build, "grammar", of_grammar, [7, 2, 0, 2, 7]) == [
        {7},
        {2},
        of_text,
        of_text,
        {7},
        set(ENDS_OF_TEXT),
    ]


def test_an_added_token_that_is_text_is_its_text(cpp_build: Path) -> None:
    for grammar in ('root ::= "<tool_call>" "a"', "root ::= <tool_call> 'a'".replace("'", '"')):
        assert allowed(cpp_build, "grammar", grammar, [6, 0]) == [{6, 13}, {0}, set(ENDS_OF_TEXT)]
    assert allowed(cpp_build, "grammar", "root ::= <face>", []) == [{12}]
    assert allowed(cpp_build, "grammar", "root ::= <[12]>", []) == [{12}]


def test_a_token_that_ends_a_text_can_be_demanded(cpp_build: Path) -> None:
    """Where none is named, all may end the text."""
    assert allowed(cpp_build, "grammar", 'root ::= "a" <|stop|>', [0, 10]) == [
        {0},
        {10},
        set(ENDS_OF_TEXT),
    ]
    assert allowed(cpp_build, "grammar", 'root ::= "a" <|stop|>?', [0])[1] == set(ENDS_OF_TEXT)


BEFORE = "the grammar is not valid at line 1, column 10: "
NONE = BEFORE + "the model has no special or added token "
REFUSALS = [
    ("root ::= <|call|", BEFORE + "a token is not closed"),
    ("root ::= <|call|\n>", BEFORE + "a token is not closed"),
    ("root ::= <", BEFORE + "a token is not closed"),
    ('root ::= <"a', BEFORE.replace("10", "11") + "a text is not closed"),
    ('root ::= <"a" >', BEFORE.replace("10", "14") + "> is missing"),
    ("root ::= <[1>", BEFORE.replace("10", "13") + "]> is missing"),
    ("root ::= <[a]>", BEFORE.replace("10", "12") + "a number is missing"),
    ("root ::= <[99999999999]>", BEFORE.replace("10", "21") + "a number is more than 1000000000"),
    ("root ::= <[1]>", NONE + "with the id 1"),
    ("root ::= <|no|>", NONE + "<|no|>"),
    ('root ::= <"n\\"o">', NONE + '"n\\"o"'),
    ("root ::= !<[1]>", BEFORE + "! is not supported: name the tokens that may come"),
    ('root ::= a\na ::= %json {"type": "integer"', "the rule a has a JSON schema that "
     "cannot be read: the JSON is not valid at line 2, column 31: a comma or } is missing at the "
     "end"),
    ("root ::= %json", "the rule root has a JSON schema that cannot be read: the JSON is "
     "not valid at line 1, column 15: a value is missing at the end"),
    ("root ::= %json 12", "the rule root: the JSON schema at # is 12, but must be an "
     "object or a boolean"),
    ('a ::= %json {"properties": {"b": {"contains": {}}}}\nroot ::= a', "the rule a: the JSON "
     'schema has the keyword "contains" at #/properties/b, which is not supported: leave it out, '
     "and check the answer for it"),
    ('root ::= %json {"x-guidance": 1}', "the rule root: the JSON schema's x-guidance "
     "has 1, which is not supported. Use whitespace_flexible (a boolean), item_separator or "
     "key_separator (regular expressions), string_quote (a text), or arguments. The last is an "
     "object of before_name, before_value, behind_value and between (texts), and raw_strings and "
     "python_values (booleans)"),
    ("root ::= %json " + '{"items":' * 200 + "{}" + "}" * 200, "the rule root has a JSON "
     "schema that cannot be read: the JSON is not valid at line 1, column 1177: it has more than "
     "128 levels"),
    ('root ::= a\na ::= %regex "a\\\\1"', "the rule a: the regular expression 'a\\1' is refused at "
     "offset 1: the back reference \\1 is not supported"),
    ("root ::= %regex a", BEFORE.replace("10", "17") + "a text in quotes must follow %regex"),
    ('root ::= %gbnf "a ::= \\"b\\""', "the rule root: the grammar has no rule named root: it is "
     "where texts begin"),
    ('root ::= %gbnf "root ::= a"', "the rule root: the grammar is not valid at line 1, column "
     "10: the rule a is used here, but is nowhere defined"),
    ('root ::= %regex "a(?!)"', "the grammar, or a constraint in it, has no text that matches"),
    ("root ::= %json false", "the grammar, or a constraint in it, has no text that matches"),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "sentence"), REFUSALS)
def test_refusals(cpp_build: Path, grammar: str, sentence: str) -> None:
    assert refusal(cpp_build, "grammar", grammar) == sentence


LIST = 'root ::= "- " %json {"type": "integer"}{2,3} "\\n" %json true\n'
REFERRED = json.dumps({"$ref": "#/$defs/x", "$defs": {"x": {"const": 1}}})
TWICE = f'root ::= {CALL_JSON} ("," {CALL_JSON} | ";" %json {REFERRED})*'
TREE = {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
OTHER = {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n"}
TREES = f"root ::= %json {json.dumps(TREE)} %json {json.dumps(OTHER)}"
SPACED = json.dumps({**CALL, "x-guidance": {"whitespace_flexible": True}}, indent=2)
ONE = '{"name":"f","arguments":{}}'

TEXTS = [
    (LIST, '- 12\n{"a":[]}', ENDS),
    (LIST, "- 1-23\n1", MATCHES),
    (LIST, "- 1\n1", REFUSED),
    (TWICE, f'{ONE},{ONE};1,{{"name":"f"', BEGINS),
    (TWICE, f"{ONE};1;1", MATCHES),
    (TWICE, f"{ONE};2", REFUSED),
    (TREES, "[[],[[]]]17", MATCHES),
    (TREES, "[[1]]", REFUSED),
    ('root ::= "<" %regex "[a-c]+|\\u0022" ">"', "<ab>", ENDS),
    ('root ::= "<" %regex "[a-c]+|\\u0022" ">"', '<">', ENDS),
    ('root ::= "<" %regex "[a-c]+" ">"', "<abd", REFUSED),
    # Each grammar has its own rules.
    ('root ::= a %gbnf "root ::= a+\\na ::= \\"y\\"" a\na ::= "x"', "xyyx", ENDS),
    ('root ::= a %gbnf "root ::= a+\\na ::= \\"y\\"" a\na ::= "x"', "xx", REFUSED),
    (f"root ::= %json # the call\n {SPACED}", '{ "name" : "f", "arguments": {}}', ENDS),
    ("root ::= %json {} | %json true | %json{}", '{"a":1}', ENDS),
]


@pytest.mark.parametrize(("grammar", "text", "place"), TEXTS)
def test_schemas_in_grammars(cpp_build: Path, grammar: str, text: str, place: str) -> None:
    assert places(cpp_build, "grammar", grammar, [text]) == [place]


def test_what_must_follow(cpp_build: Path) -> None:
    grammar = f'root ::= "<tool_call>\\n" {CALL_JSON} "\\n</tool_call>"'
    assert forced(cpp_build, "grammar", grammar, "<") == b'tool_call>\n{"name":"f","arguments":{'


def test_equal_schemas_are_compiled_once(cpp_build: Path) -> None:
    """So that a thousand of them are no larger than one and a thousand commas."""
    enum = json.dumps({"enum": [f"{number:>500}" for number in range(100)]})
    grammar = "root ::= " + ' "," '.join([f"%json {enum}"] * 1000)
    assert places(cpp_build, "grammar", grammar, [f'"{7:>500}",']) == [BEGINS]


class Model(NamedTuple):
    """A real tokenizer, and the same for llguidance."""

    oracle: LLTokenizer
    tokens: list[bytes]
    names: list[str]


@pytest.fixture(scope="module")
def real(shared_data: Path) -> Model:
    path = shared_data / "tokenizers" / "smollm_tokenizer.json"
    if not path.exists():
        pytest.skip("there is no shared/data/tokenizers/smollm_tokenizer.json")
    text = path.read_text(encoding="utf-8")
    oracle = LLTokenizer(text)
    tokens = [
        b"" if oracle.is_special_token(token) else oracle.decode_bytes([token])
        for token in range(oracle.vocab_size)
    ]
    names = [""] * oracle.vocab_size
    for token in json.loads(text)["added_tokens"]:
        names[token["id"]] = token["content"]
    return Model(oracle, tokens, names)


COMPACT = json.dumps({**CALL, "x-guidance": {"whitespace_flexible": False}})
# GBNF, llguidance's notation of the same, and pieces of a text: special tokens by their names.
CASES = [
    (f'root ::= <|im_start|> "call\\n" %json {COMPACT} <jupyter_code>',
     f'start: <|im_start|> "call\\n" %json {COMPACT} <jupyter_code>',
     ["<|im_start|>", 'call\n{"name":"f","arguments":{"a":[1,"é"]}}', "<jupyter_code>"]),
    (f"root ::= [^\\x00]* (<file_sep> %json {COMPACT})*",
     f"start: /[^\\x00]*/ (<file_sep> %json {COMPACT})*",
     ["Some text, é 日本.\n", "<file_sep>", '{"name":"f","arguments":{}}']),
    ("root ::= (<[3]> | <[5]> [a-z]+)*", "start: (<[3]> | <[5]> /[a-z]+/)*",
     ["<file_sep>", "abc", "<repo_name>", "<repo_name>", "<file_sep>", "x"]),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "lark", "pieces"), CASES)
def test_masks_are_those_of_llguidance(
    cpp_build: Path, real: Model, grammar: str, lark: str, pieces: list[str]
) -> None:
    """Token by token, except that where bytes are forced, llguidance allows the one token only that
    its own tokenization begins with."""
    ids: list[int] = []
    for piece in pieces:
        special = piece in real.names
        ids += [real.names.index(piece)] if special else real.oracle.tokenize_str(piece)
    end = real.oracle.eos_token
    (ours,) = masks(cpp_build, real.tokens, [end], [("grammar", grammar, ids)], real.names)
    assert len(ours) == len(ids) + 1
    matcher = LLMatcher(real.oracle, LLMatcher.grammar_from_lark(lark))
    assert not matcher.is_error(), matcher.get_error()
    compared = 0
    for at, mine in enumerate(ours):
        if matcher.is_stopped():
            assert np.flatnonzero(mine).tolist() == [end] and at == len(ids)
            break
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        theirs = np.unpackbits(bits, bitorder="little")[: len(mine)].astype(bool)
        if theirs.sum() == 1:
            assert (mine & theirs).any()
        else:
            compared += 1
            different = [real.tokens[token] for token in np.flatnonzero(mine != theirs)]
            assert not different, (at, different)
        if at < len(ids):
            assert matcher.consume_token(ids[at])
    assert compared > len(pieces)


def test_free_text_until_a_literal(cpp_build: Path, real: Model) -> None:
    """Every token may come that does not end the literal; what follows that is held to the rule."""
    grammar = free_text_until("<tool_call>", "call") + f'call ::= "\\n" {CALL_JSON}'
    call = f"<tool_call>\n{ONE}"
    texts = ["", "a < b <tool_cal <<tool_", f"<tool{call}", call, f"x{call}", f"{call}x"]
    texts += ["<tool_call>x", "<tool_call>", f"{call}{call}"]
    found = [MATCHES, MATCHES, ENDS, ENDS, ENDS, REFUSED, REFUSED, BEGINS, REFUSED]
    assert places(cpp_build, "grammar", grammar, texts) == found
    ids = real.oracle.tokenize_str("I think <tool")
    (found_masks,) = masks(
        cpp_build, real.tokens, [real.oracle.eos_token], [("grammar", grammar, ids)], real.names
    )
    begun = real.oracle.decode_bytes(ids)
    for token, text in enumerate(real.tokens):
        try:
            whole = (begun + text).decode("utf-8")
        except UnicodeDecodeError:
            continue
        if text:
            _, literal, rest = whole.partition("<tool_call>")
            expected = not literal or '\n{"name":"f","arguments":{'.startswith(rest)
            assert found_masks[-1][token] == expected, text
