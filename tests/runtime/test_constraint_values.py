"""Values that a schema names itself, strings of the format uri, and lengths beside patterns."""

import itertools
import json
import re
from pathlib import Path

import jsonschema
import pytest
from support.constraints import BEGINS, accepts, places, refusal

SCHEMA = "json-schema"

# Of RFC 3986, section 1.1.2 and others; and what is none.
URIS = [
    "ftp://ftp.is.co.za/rfc/rfc1808.txt",
    "http://www.ietf.org/rfc/rfc2396.txt",
    "ldap://[2001:db8::7]/c=GB?objectClass?one",
    "mailto:John.Doe@example.com",
    "news:comp.infosystems.www.servers.unix",
    "tel:+1-816-555-1212",
    "telnet://192.0.2.16:80/",
    "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
    "foo://example.com:8042/over/there?name=ferret#nose",
    "http://user:pw@host:1/%20;a,b?/?#/?",
    "file:///etc/hosts",
    "x:",
    "a+b-c.d:/",
]
NO_URIS = ["", "//host/", "a/b", "http://a b", "1a:b", "http://[::1", "x:#a#b", "x:%2", "x:%zz"]
NO_URIS += ["http://é.fr", "x:<y>", "http://[1::2::3]/", "http://a:b/", "x:a[b]"]


def test_uris(cpp_build: Path) -> None:
    schema = {"type": "string", "format": "uri"}
    texts = [json.dumps(text) for text in URIS + NO_URIS]
    expected = [True] * len(URIS) + [False] * len(NO_URIS)
    assert accepts(cpp_build, SCHEMA, schema, texts) == expected


def test_numbers_fit_a_double(cpp_build: Path) -> None:
    texts = ["8e446", "1E+100", "-7.5e-99", "12e9"]
    for schema in ({"type": "number"}, {}):
        assert accepts(cpp_build, SCHEMA, schema, texts) == [False, False, True, True]


VALUES: list[object] = [
    *("ab", "b", "", 1, -3, 2.5, None, True, [], [1], [1, "x"]),
    *({}, {"a": 1}, {"b": "x", "a": 1}, {"a": 1, "c": 2}, {"ab": None}),
]
BESIDE: list[dict[str, object]] = [
    {"pattern": "^a"},
    {"type": ["string", "number"], "maxLength": 1, "minimum": 0},
    {"type": "object", "propertyNames": {"pattern": "^a"}},
    {"required": ["a"], "additionalProperties": {"type": "integer"}, "properties": {"b": True}},
    {"maxItems": 1, "items": {"type": "integer"}},
    {"prefixItems": [{"type": "integer"}], "items": False},
    {"anyOf": [{"type": "string"}, {"minItems": 2}], "minLength": 1},
    {"type": "string", "pattern": "b", "anyOf": [{"pattern": "^a"}, {"maxLength": 0}]},
    {"allOf": [{"type": ["object", "null"]}, {"properties": {"a": {"maximum": 0}}}]},
]


@pytest.mark.parametrize("beside", BESIDE)
def test_an_enum_beside_other_keywords(cpp_build: Path, beside: dict[str, object]) -> None:
    """The values that are left are those that `jsonschema` finds valid."""
    schema = {"enum": VALUES, **beside}
    validator = jsonschema.Draft202012Validator(schema)
    texts = [json.dumps(value, separators=(",", ":")) for value in VALUES]
    expected = [validator.is_valid(value) for value in VALUES]
    assert True in expected and False in expected
    assert accepts(cpp_build, SCHEMA, schema, texts) == expected


COUNTED = [
    *("^(aab)*$", "^a*b?$", "^(b|aa)+$", "^(a|b)*bab$", "a(aaa)*b$", "^(a{4})*|b$"),
    *("^b{2,4}$", "^(aa|b){2,4}a?$", "(ab){1,2}", "^a{1,3}", "b{2,5}$", "a{2,3}b{2,3}"),
    "(a|b{0,3})",
]


def test_lengths_beside_a_pattern(cpp_build: Path) -> None:
    """No beginning is let through from which no text of such a length can be reached."""
    words = ["".join(word) for n in range(10) for word in itertools.product("ab", repeat=n)]
    for pattern, (low, high) in itertools.product(COUNTED, [(0, 5), (3, 4), (4, 9), (5, 5)]):
        inside = {w for w in words if low <= len(w) <= high and re.search(pattern, w)}
        begun = {word[:n] for word in inside for n in range(len(word) + 1)}
        schema = {"type": "string", "pattern": pattern, "minLength": low, "maxLength": high}
        if not inside:
            assert refusal(cpp_build, SCHEMA, schema) == "the JSON schema has no text that matches"
            continue
        tried = [word for word in words if len(word) <= 6]
        texts = [f'"{word}' for word in tried]
        assert [
            (word, place == BEGINS, end)
            for word, place, end in zip(
                tried,
                places(cpp_build, SCHEMA, schema, texts),
                accepts(cpp_build, SCHEMA, schema, [f'{text}"' for text in texts]),
                strict=True,
            )
        ] == [(word, word in begun, word in inside) for word in tried], schema


@pytest.mark.parametrize(
    ("pattern", "length"),
    [(r"\p{L}{1,500}", 500), (r"\p{L}{1,500}", 10), (r"^\p{L}{1,500}$", 500)],
)
def test_a_length_that_a_pattern_keeps_takes_no_states(
    cpp_build: Path, pattern: str, length: int
) -> None:
    schema = {"type": "string", "pattern": pattern, "minLength": 1, "maxLength": length}
    texts = [f'"{"é" * length}"', f'"{"é" * (length + 1)}"', '"1"', '""']
    assert accepts(cpp_build, SCHEMA, schema, texts) == [True, False, False, False]


LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"  # of zod's names of hosts

# What frameworks write, with a text of its values and one that is none.
FRAMEWORKS: list[tuple[dict[str, object], str, str]] = [
    ({"type": "string", "nullable": True}, "null", "1"),
    ({"enum": ["a"], "type": "string", "nullable": True}, "null", '"b'),
    ({"type": "string", "format": "iri"}, '"a b"', "1"),
    ({"type": "string", "format": "path"}, '"a/b"', "1"),
    ({"type": "string", "format": "binary"}, '"\\u0001 é"', "1"),
    ({"type": "string", "format": "base64"}, '"QUI/QQ=="', '"QUI/QQ"'),
    ({"type": "string", "format": "base64"}, '""', '"Q"'),
    ({"type": "string", "format": "base64"}, '"QUI="', '"QU-="'),
    ({"type": "string", "format": "base64", "maxLength": 7}, '"QUI="', '"QUI/QQ=="'),
    ({"type": "string", "format": "base64url"}, '"QU-_QQ=="', '"QU+/"'),
    ({"type": "integer", "const": 1.0}, "1", "1.0"),
    ({"type": "number", "allOf": [{"enum": [1, 2]}, {"enum": [1.0, 3]}]}, "1", "2"),
    ({"type": "array", "items": {"enum": [1, "a", None]}, "uniqueItems": True}, '["a",1]', "[1,1]"),
    ({"items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 2}, "[2,1]", "[1]"),
    ({"items": {"enum": [1, 2]}, "uniqueItems": False, "type": "array"}, "[1,1]", "[3]"),
    (
        {"items": {"enum": ["b", "b", "a"]}, "uniqueItems": True, "minItems": 1},
        '["b"]',
        '["b","b"]',
    ),
    ({"items": {"enum": [1, 1.0, 2]}, "uniqueItems": True, "minItems": 2}, "[2,1]", "[1,1.0]"),
    ({"type": "object", "minProperties": 1}, '{"a":1}', "{}"),
    ({"type": "object", "minProperties": 2, "maxProperties": 3}, '{"a":1,"b":2}', '{"a":1}'),
    ({"type": "object", "maxProperties": 1}, '{"a":1}', '{"a":1,"b":2}'),
    (
        {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"], "minProperties": 2},
        '{"b":1,"c":1}',
        '{"b":1}',
    ),
    ({"properties": {"a": {}, "b": {}}, "minProperties": 2}, '{"a":1,"b":1}', '{"b":1}'),
    ({"properties": {"a": {}, "b": {}}, "maxProperties": 1}, '{"b":1}', '{"a":1,"b":1}'),
    (
        {"type": ["object", "integer"], "properties": {"a": {}, "b": {}}, "minProperties": 3},
        "1",
        '{"a":1,"b":1}',
    ),
    # Without a type, what the keywords are about is meant, in every part of a schema.
    ({"properties": {"a": {"minimum": 1}}, "required": ["a"]}, '{"a":1}', "1"),
    ({"properties": {"a": {"minimum": 1}}, "required": ["a"]}, '{"a":1}', '{"a":"b"}'),
    ({"items": {"maxLength": 1}}, '["a"]', "[1]"),
    ({"minimum": 1, "maxLength": 1}, '"a"', "[]"),
    ({"allOf": [{"type": "string"}, {"properties": {"a": {}}}]}, '"a"', "{}"),
    ({"type": "object", "patternProperties": {"^x": {"const": 1}}}, '{"xy":1}', '{"xy":2}'),
    ({"type": "object", "patternProperties": {"^x": {"const": 1}}}, '{"y":2}', '{"y":2,"x":2}'),
    (
        {"properties": {"a": {}}, "patternProperties": {"^x": {"const": 1}}},
        '{"a":0,"y":2}',
        '{"a":0,"x":2}',
    ),
    (
        {"patternProperties": {"^x": {"const": 1}}, "additionalProperties": False},
        '{"x":1}',
        '{"y":1}',
    ),
    (
        {"patternProperties": {"^x": {"const": 1}}, "additionalProperties": {"const": 2}},
        '{"xy":1,"y":2}',
        '{"xy":2}',
    ),
    (
        {"patternProperties": {"a": {"type": "string"}, "b": {"maxLength": 1}}},
        '{"ab":"x"}',
        '{"ab":"xy"}',
    ),
    (
        {"properties": {"xa": {"maximum": 3}}, "patternProperties": {"^x": {"type": "integer"}}},
        '{"xa":3,"xb":4}',
        '{"xa":4}',
    ),
    (
        {"properties": {"a": {}, "b": {}}, "propertyOrdering": ["b", "a"]},
        '{"b":1,"a":2}',
        '{"a":2,"b":1}',
    ),
    ({"properties": {"a": {}}, "unevaluatedProperties": False}, '{"a":1}', '{"b":1}'),
    ({"type": "object", "properties": {"a": {"not": {}}}}, "{}", '{"a":1}'),
    ({"not": {"type": "null"}}, "1", "null"),
    ({"not": {"type": ["string", "number"]}}, "[1]", "1"),
    ({"not": {"not": {"const": 1}}}, "1", "2"),
    ({"type": "string", "not": {"const": ""}}, '"a"', '""'),
    ({"type": "string", "not": {"enum": ["a", "\n"]}, "maxLength": 2}, '"aa"', '"a"'),
    ({"type": "string", "not": {"pattern": "^a"}}, '"ba"', '"ab"'),
    ({"not": {"pattern": "^a"}}, '"ba"', "1"),
    ({"type": ["integer", "null"], "not": {"enum": [0, None]}}, "10", "-0"),
    ({"type": "integer", "minimum": 1, "maximum": 3, "not": {"const": 2.0}}, "3", "2"),
    ({"type": "boolean", "not": {"const": True}}, "false", "true"),
    ({"enum": ["a", "b", 1], "not": {"anyOf": [{"const": "a"}, {"type": "number"}]}}, '"b"', "1"),
    ({"type": "object", "not": {"required": ["a"]}}, '{"b":1}', '{"a":1}'),
    ({"anyOf": [{"type": "string"}, {"type": "null"}], "not": {"const": "x"}}, '"y"', '"x"'),
    (
        {"type": "string", "pattern": r"^(?=.*\d)(?=.*[A-Z]).{3,}$", "maxLength": 4},
        '"aB1"',
        '"ab1"',
    ),
    (
        {"type": "string", "pattern": rf"^(?=.{{1,253}}\.?$){LABEL}(?:\.{LABEL})*\.?$"},
        f'"{"ab." * 84}a"',
        f'"{"ab." * 84}ab"',
    ),
    ({"type": "string", "pattern": r"\bcat\b"}, '"a cat."', '"cats"'),
    ({"type": "string", "format": "uri", "maxLength": 2083, "minLength": 1}, '"x:"', '"x"'),
    ({"type": "string", "format": "email", "maxLength": 320}, '"a@b"', '"ab"'),
    ({"properties": {"a": {}, "b": {}}, "minProperties": 1}, '{"b":1}', "{}"),
    ({"type": "integer", "multipleOf": 7}, "-14", "15"),
    ({"type": "number", "multipleOf": 0.01}, "-12.50", "0.001"),
    ({"type": "number", "multipleOf": 0.25, "minimum": 1, "exclusiveMaximum": 3}, "2.75", "3"),
    ({"type": "number", "multipleOf": 1.5}, "10.5", "10"),
    ({"type": "number", "multipleOf": 1e-3, "minimum": 0}, "0.125", "-0.125"),
    ({"type": "integer", "multipleOf": 2.5}, "-15", "12"),
    ({"enum": [0.3, 0.35], "multipleOf": 0.05}, "0.35", "0.36"),
    ({"items": {"$ref": "#one"}, "$defs": {"a": {"$anchor": "one", "const": 1}}}, "[1]", "[2]"),
    ({"items": {"$ref": "#one"}, "definitions": {"a": {"$id": "#one", "const": 1}}}, "[1]", "[2]"),
    (
        {"$id": "https://a.b/c", "type": ["array", "null"], "items": {"$ref": "https://a.b/c"}},
        "[[null]]",
        "[1]",
    ),
    (
        {"$defs": {"a": {"$id": "urn:a", "$defs": {"b": {"const": 1}}}}, "$ref": "urn:a#/$defs/b"},
        "1",
        "2",
    ),
    ({"type": "integer", "multipleOf": 250, "minimum": 1, "exclusiveMaximum": 1000}, "750", "1000"),
]


@pytest.mark.parametrize(("schema", "right", "wrong"), FRAMEWORKS)
def test_schemas_of_frameworks(
    cpp_build: Path, schema: dict[str, object], right: str, wrong: str
) -> None:
    assert accepts(cpp_build, SCHEMA, schema, [right, wrong]) == [True, False]


def test_classes_that_extend_each_other(cpp_build: Path) -> None:
    """Both refer to themselves: a part of A is one of B too."""
    base = {"properties": {"next": {"$ref": "#/$defs/B"}, "all": {"items": {"$ref": "#/$defs/B"}}}}
    derived = {
        "allOf": [{"$ref": "#/$defs/B"}],
        "properties": {"next": {"$ref": "#/$defs/A"}, "n": {"type": "integer"}},
    }
    schema = {"$defs": {"A": {**derived, "type": "object"}, "B": base}, "$ref": "#/$defs/A"}
    texts = ['{"next":{"next":{"n":1},"n":2}}', '{"next":{"n":"x"}}', '{"next":{"next":1}}']
    assert accepts(cpp_build, SCHEMA, schema, texts) == [True, False, False]


LEFT_OUT: list[tuple[dict[str, object], str]] = [
    ({"type": "string", "contentEncoding": "x", "if": {}, "pattern": "(?<=a)b"}, '"x"'),
    ({"type": "number", "multipleOf": 0.1234, "minimum": 1}, "1.5"),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1,1]"),
    ({"properties": {"a": {"$ref": "other.json"}}, "contains": {}}, '{"a":1}'),
    ({"type": "string", "pattern": "a.{20}$", "maxLength": 2}, '"xy"'),
    ({"type": "string", "not": {"minLength": 3}}, '"xyz"'),
    ({"allOf": [{"patternProperties": {"a": {}}}, {"properties": {"b": {}}}]}, '{"b":1}'),
]


@pytest.mark.parametrize(("schema", "text"), LEFT_OUT)
def test_what_is_left_out(cpp_build: Path, schema: dict[str, object], text: str) -> None:
    assert refusal(cpp_build, SCHEMA, schema)
    assert accepts(cpp_build, "relaxed-schema", schema, [text, "["]) == [True, False]


NOT_SUPPORTED: list[tuple[dict[str, object], str]] = [
    ({"properties": {"a": {"not": {"minimum": 3}}}}, "the JSON schema at #/properties/a/not is not "
     "supported: leave it out, and check the answer for it. A not may be of types, an enum, a "
     "const, a pattern, one required name, or an anyOf of these"),
    ({"type": "number", "not": {"const": 0.5}}, "the JSON schema at # has a not of [0.5], but of "
     "values that are left out only strings, integers, booleans and null are supported: leave it "
     "out, and check the answer for it"),
    ({"allOf": [{"patternProperties": {"a": {}}}, {"properties": {"b": {}}}]}, "the JSON schema at "
     "# joins patternProperties with other properties by $ref or allOf, which is not supported: "
     "write them as one"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "sentence"), NOT_SUPPORTED)
def test_refusals(cpp_build: Path, schema: dict[str, object], sentence: str) -> None:
    assert refusal(cpp_build, SCHEMA, schema) == sentence
