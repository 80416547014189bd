"""The tokens that a constraint allows are those that llguidance allows, token by token.

Both write JSON without white space here. What differs, and why:

- Where bytes are forced, llguidance allows only the token that its own tokenization of them begins
  with; we allow every token that is a beginning of them (and skip the model there).
- Seconds of a time: llguidance allows 60, we do not, because Python's datetime cannot read it.
- The 29th of February: llguidance allows it in every year.
- An exponent has at most two digits for us, so that the number fits a double.
- -0 is a number for both, but where bounds are given, only for llguidance.
- Where the maximum is 2.25, llguidance refuses 2.2, for which it wants 2.20, and 2.250.
- A name beside `properties` may have printable characters as \\u escapes for llguidance.

Texts of the 50 schemas of support/answer_schemas.py were compared by hand with xgrammar 0.2.8 (it
needs triton). It differs in these, and jsonschema agrees with us in each:

- It refuses escapes, such as of a quote, in strings with a bound of their length or a pattern.
- It allows the 30th of February.
- It ignores all but one part of allOf, and the order in which allOf's parts have their properties.
- It refuses 1500.0 as a constant that the schema has as 1.5e3.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray
from support.constraints import accepts, forced, masks
from support.tiers import checked_rows

CLOSED = {"type": "object", "additionalProperties": False}
ADDRESS = {
    **CLOSED,
    "properties": {"street": {"type": "string"}, "number": {"type": "integer", "minimum": 1}},
    "required": ["street"],
}
NODE = {
    **CLOSED,
    "properties": {
        "value": {"type": "number"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["value"],
}
SHAPES = [
    {**CLOSED, "properties": {"kind": {"const": kind}, "size": size}, "required": ["kind", "size"]}
    for kind, size in (("circle", {"type": "number"}), ("cube", {"type": "array"}))
]

CASES: list[tuple[dict[str, object], list[str]]] = [
    (
        {**CLOSED, "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
        ['{"name":"Bob","age":12}', '{"name":"B\\n\\u0001é 日本"}', '{"age":0}', "{}"],
    ),
    (
        {**CLOSED, "properties": {"a": {"type": "number"}, "b": {"type": "boolean"}, "c": {}}},
        ['{"a":-1.5e1,"c":null}', '{"b":true,"c":[{}]}'],
    ),
    ({}, ['{"a":[1,2,{"b":null}],"c":"x"}', '"abc\\"d"', "[]", "-12.5E+3", "false"]),
    ({"type": "object"}, ['{"a":{"a":{"a":[]}}}']),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}, ["[1,23,-4]"]),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 300}, ['["a","bc"]', "[]"]),
    ({"type": "string", "minLength": 2, "maxLength": 40}, ['"ab"', '"hello world éé"']),
    ({"type": "string", "maxLength": 3}, ['"abc"', '""']),
    ({"type": "string", "minLength": 3000}, ['"hello world']),
    ({"type": "string", "pattern": "^[a-z]+-[0-9]{2,3}$"}, ['"ab-123"']),
    ({"type": "string", "pattern": "foo|ba[rz]"}, ['"xx foo yy"', '"bar"']),
    ({"type": "string", "pattern": '^".\\\\$'}, ['"\\"x\\\\"']),
    ({"type": "string", "pattern": "^[a-zé]+-", "maxLength": 9}, ['"abé-\\n日"', '"abcdefgh-"']),
    ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"']),
    ({"type": "string", "format": "date"}, ['"2024-03-31"']),
    (
        {"enum": ["red", "green", 'gr"een', 1, None, {"a": [1, 2]}]},
        ['"red"', '"gr\\"een"', '{"a":[1,2]}', "null"],
    ),
    ({"const": "only"}, ['"only"']),
    ({"enum": ["red", "green", "grey", 3], "pattern": "^gr"}, ['"grey"']),
    ({"type": "string", "format": "uri"}, ['"http://user@a.b:80/c?d=%20#e"', '"urn:isbn:1"']),
    (
        {
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "required": ["x", "y"],
            "additionalProperties": {"type": "string"},
        },
        ['{"x":1,"y":"b","z":"c"}'],
    ),
    ({"anyOf": SHAPES}, ['{"kind":"circle","size":1}', '{"kind":"cube","size":[[]]}']),
    ({"$defs": {"node": NODE}, "$ref": "#/$defs/node"}, ['{"value":1.5,"children":[{"value":2}]}']),
    ({"type": "integer", "minimum": 3, "maximum": 120}, ["17", "120"]),
    ({"type": "integer", "exclusiveMinimum": 999}, ["1000", "23456"]),
    ({"type": "integer", "maximum": -12}, ["-12", "-345"]),
    ({"type": "number", "minimum": 0.5, "exclusiveMaximum": 2.5}, ["1.75", "0.875"]),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, ['["a",1,[]]']),
    (
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False, "minItems": 1},
        ['["a"]'],
    ),
    (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {**CLOSED, "properties": {"a": {"minimum": 5}, "b": True}, "required": ["b"]},
            ]
        },
        ['{"a":7,"b":"x"}'],
    ),
    ({"type": ["string", "null"]}, ['"a"', "null"]),
    (
        {
            **CLOSED,
            "properties": {"home": ADDRESS, "work": {"anyOf": [ADDRESS, {"type": "null"}]}},
            "required": ["work"],
        },
        ['{"home":{"street":"a","number":12},"work":null}', '{"work":{"street":"b"}}'],
    ),
]


@dataclass(frozen=True)
class Oracle:
    """llguidance with a tokenizer."""

    tokenizer: LLTokenizer
    tokens: list[bytes]  # empty for special ones

    @property
    def end(self) -> int:
        return self.tokenizer.eos_token

    def masks(self, grammar: str, ids: list[int]) -> list[NDArray[np.bool_]]:
        """The tokens allowed at first and after each id."""
        matcher = LLMatcher(self.tokenizer, grammar)
        assert not matcher.is_error(), matcher.get_error()
        found = []
        for token in [*ids, None]:
            if matcher.is_stopped():  # complete, and nothing can follow
                found.append(np.arange(len(self.tokens)) == self.end)
                break
            bits = np.unpackbits(
                np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little"
            )
            found.append(bits[: len(self.tokens)].astype(bool))
            if token is None or not matcher.consume_token(token):
                break
        return found


@cache
def oracle_of(path: Path) -> Oracle:
    tokenizer = LLTokenizer(path.read_text(encoding="utf-8"))
    tokens = [
        b"" if tokenizer.is_special_token(token) else tokenizer.decode_bytes([token])
        for token in range(tokenizer.vocab_size)
    ]
    return Oracle(tokenizer, tokens)


@pytest.fixture
def oracle(shared_data: Path) -> Oracle:
    return oracle_of(shared_data / "tokenizers" / "smollm_tokenizer.json")


def assert_equal_masks(
    build: Path, oracle: Oracle, kind: str, constraint: object, grammar: str, text: str
) -> None:
    single = {token: index for index, token in enumerate(oracle.tokens) if len(token) == 1}
    for ids in (oracle.tokenizer.tokenize_str(text), [single[bytes([b])] for b in text.encode()]):
        (ours,) = masks(build, oracle.tokens, [oracle.end], [(kind, constraint, ids)])
        theirs = oracle.masks(grammar, ids)
        assert len(ours) == len(theirs) == len(ids) + 1
        for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            before = b"".join(oracle.tokens[token] for token in ids[:at])
            different = [oracle.tokens[token] for token in np.flatnonzero(mine != other)]
            if different and b"\xff" not in before:
                must = forced(build, kind, constraint, before.decode("utf-8"))
                assert other.any() and not (other & ~mine).any(), (constraint, before, different)
                assert must and all(must.startswith(token) for token in different), (
                    constraint,
                    before,
                    different,
                )


@pytest.mark.parametrize(
    ("schema", "instances"),
    [*CASES[::2], *checked_rows(CASES[1::2])],  # test_constraint_values.py has each keyword
)
def test_schemas(
    cpp_build: Path, oracle: Oracle, schema: dict[str, object], instances: list[str]
) -> None:
    assert all(accepts(cpp_build, "json-schema", schema, instances[:1])) or "minLength" in schema
    compact = {"whitespace_flexible": False}
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=compact)
    for text in instances:
        assert_equal_masks(cpp_build, oracle, "json-schema", schema, grammar, text)


def test_white_space(cpp_build: Path, oracle: Oracle) -> None:
    schema = {**ADDRESS, "x-guidance": {"whitespace_flexible": True}}
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
    text = '{ "street" :\n"a b", "number":\t12 }'
    assert_equal_masks(cpp_build, oracle, "json-schema", schema, grammar, text)


REGEXES = [
    (r"[0-9]{3}-[0-9]{4}", "555-1234"),
    (r"(yes|no|not sure)\.?", "not sure."),
    (r"[^\n]+", "some text, é 日本"),
    (r"([A-Z][a-z]*( [A-Z][a-z]*){0,3}): .*", "Hello World: x"),
    (r"(a|b)*abb", "ababb"),
]


@pytest.mark.parametrize(("regex", "text"), REGEXES)
def test_regexes(cpp_build: Path, oracle: Oracle, regex: str, text: str) -> None:
    grammar = LLMatcher.grammar_from_regex(regex.replace(".*", r"[^\n\r\u2028\u2029]*"))
    assert_equal_masks(cpp_build, oracle, "regex", regex, grammar, text)
