"""JSON schemas as constraints: which texts they let through, and what is refused."""

import json
import random
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import jsonschema
import pytest
from support.constraints import BEGINS, ENDS, MATCHES, REFUSED, accepts, forced, places, refusal

SCHEMA = "json-schema"
CLOSED = {"type": "object", "additionalProperties": False}
NODE = {
    **CLOSED,
    "properties": {
        "value": {"type": "number"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["value"],
}
A_AND_B = {**CLOSED, "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
OPEN_A = {"properties": {"a": {"type": "null"}}, "additionalProperties": True}
HAS_A = {"type": "object", "properties": {"a": {"type": "null"}}}
HAS_B = {"properties": {"b": {"type": "null"}}}
WORD_FIRST = {"type": "array", "prefixItems": [{"type": "string"}], "maxItems": 2}

PLACES: list[tuple[object, str, str]] = [
    (True, "[1,{", BEGINS),
    ({}, '{"a":[1,2,{"b":null}],"é":-1.5e3}', ENDS),
    ({}, "12", MATCHES),
    ({}, "012", REFUSED),
    ({"type": "null"}, "null", ENDS),
    ({"type": ["boolean", "null"]}, "true", ENDS),
    ({"type": ["boolean", "null"]}, '"', REFUSED),
    (A_AND_B, '{"a":1,"b":"x"}', ENDS),
    (A_AND_B, '{"b":"x"}', ENDS),
    (A_AND_B, "{}", ENDS),
    (A_AND_B, '{"b":"x","a"', REFUSED),
    (A_AND_B, '{"a":1,"c"', REFUSED),
    (A_AND_B, '{"a": 1', REFUSED),
    ({**A_AND_B, "required": ["b"]}, '{"a":1}', REFUSED),
    ({**A_AND_B, "required": ["b"]}, '{"b":""}', ENDS),
    ({**A_AND_B, "additionalProperties": True}, '{"a":1,"z":[],"aa":2}', ENDS),
    ({**A_AND_B, "additionalProperties": True}, '{"z":[],"a"', REFUSED),
    ({**A_AND_B, "additionalProperties": {"type": "null"}}, '{"z":null,"y":n', BEGINS),
    ({**A_AND_B, "additionalProperties": {"type": "null"}}, '{"z":1', REFUSED),
    ({"type": "object", "required": ["x"]}, '{"x":0,"y":1}', ENDS),
    # Listed properties close an object that does not say more; of allOf, all that are listed.
    (HAS_A, '{"a":null}', ENDS),
    (HAS_A, '{"a":null,', REFUSED),
    (HAS_A, '{"b', REFUSED),
    ({**HAS_A, "properties": {}}, '{"', REFUSED),
    ({**HAS_A, "required": ["b"]}, '{"a":null,"b":[1]}', ENDS),
    ({**HAS_A, "required": ["b"]}, '{"b":1,', REFUSED),
    ({**HAS_A, "additionalProperties": {}}, '{"a":null,"b":1}', ENDS),
    ({**HAS_A, "unevaluatedProperties": True}, '{"a":null,"b":1}', ENDS),
    ({**HAS_A, "propertyNames": {"pattern": "^[ab]$"}}, '{"b', REFUSED),
    ({"allOf": [HAS_A, HAS_B]}, '{"a":null,"b":null}', ENDS),
    ({"allOf": [HAS_A, HAS_B]}, '{"a":null,"c', REFUSED),
    ({"allOf": [HAS_A, {"additionalProperties": True}]}, '{"c":1}', ENDS),
    ({"anyOf": [HAS_A, {**HAS_B, "type": "object"}]}, '{"a":null,', REFUSED),
    ({**HAS_A, "anyOf": [HAS_B, {"type": "object"}]}, '{"a":null,"b":null}', ENDS),
    ({"type": "object", "additionalProperties": HAS_A}, '{"x":{"a":null},"x":{}}', ENDS),
    ({**CLOSED, "required": ["x"], "properties": {"x": {"type": "integer"}}}, "{}", REFUSED),
    (
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        '{"value":1,"children":[{"value":2}]}',
        ENDS,
    ),
    ({"$ref": "#/$defs/a~1b/anyOf/0", "$defs": {"a/b": {"anyOf": [{"const": 7}]}}}, "7", ENDS),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, "[1]", REFUSED),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
        "[1,2,3]",
        ENDS,
    ),
    ({"type": "array", "items": {"type": "integer"}, "maxItems": 1}, "[1,", REFUSED),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}]}, '[1,2,"x",[]]', ENDS),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}]}, "[1]", ENDS),
    ({"type": "array", "prefixItems": [{"const": 1}], "items": False}, "[1,", REFUSED),
    ({"type": "array", "items": [{"const": 1}], "additionalItems": False}, "[1]", ENDS),
    ({"type": "string", "minLength": 2, "maxLength": 3}, '"é\\n"', ENDS),
    ({"type": "string", "minLength": 2, "maxLength": 3}, '"é"', REFUSED),
    ({"type": "string", "minLength": 2, "maxLength": 3}, '"abcd', REFUSED),
    ({"type": "string", "maxLength": 1000}, json.dumps("x" * 1000), ENDS),
    ({"type": "string", "maxLength": 1000}, '"' + "x" * 1001, REFUSED),
    ({"type": "string"}, '"\\u001f\\u007F\\t"', ENDS),
    ({"type": "string"}, '"\\u0041', REFUSED),
    ({"type": "string"}, '"\\/', REFUSED),
    ({"type": "string", "pattern": "^[a-z]+$"}, '"ab"', ENDS),
    ({"type": "string", "pattern": "^[a-z]+$"}, '"aB', REFUSED),
    ({"type": "string", "pattern": "b"}, '"abc"', ENDS),
    ({"type": "string", "pattern": "b"}, '"ac"', REFUSED),
    ({"type": "string", "pattern": '^"$'}, '"\\""', ENDS),
    ({"type": "string", "pattern": "^é|\\n$"}, '"x\\n"', ENDS),
    ({"type": "string", "pattern": "^[a-zé]+$", "maxLength": 3}, '"aé"', ENDS),
    ({"type": "string", "pattern": "^[a-zé]+$", "maxLength": 3}, '"aéb', BEGINS),
    ({"type": "string", "pattern": "^[a-zé]+$", "maxLength": 3}, '"aébc', REFUSED),
    ({"type": "string", "pattern": "b", "minLength": 3}, '"ab"', REFUSED),
    ({"type": "string", "pattern": "b", "minLength": 3}, '"ab\\n"', ENDS),
    ({"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"}, '"b"', REFUSED),
    ({"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"}, '"xbya"', ENDS),
    ({"type": "string", "format": "date", "pattern": "^2024"}, '"2023', REFUSED),
    ({"type": "string", "format": "date", "pattern": "^2024"}, '"2024-01-31"', ENDS),
    ({"type": "string", "format": "date"}, '"2024-02-29"', ENDS),
    ({"type": "string", "format": "date"}, '"2023-02-29', REFUSED),
    ({"type": "string", "format": "date"}, '"1900-02-29', REFUSED),
    ({"type": "string", "format": "time"}, '"23:59:59.25+01:00"', ENDS),
    ({"type": "string", "format": "date-time"}, '"2000-02-29T00:00:00Z"', ENDS),
    ({"type": "string", "format": "uuid"}, '"123e4567-e89b-12d3-a456-426614174000"', ENDS),
    ({"enum": ["a", 1, {"k": [None]}]}, '{"k":[null]}', ENDS),
    ({"enum": ["a", 1, {"k": [None]}], "type": "integer"}, '"', REFUSED),
    ({"enum": ["ab", "abc", "b"], "maxLength": 2}, '"abc', REFUSED),
    ({"enum": ["ab", "abc", "b"], "maxLength": 2}, '"ab"', ENDS),
    ({"enum": ["ab", "cb", 3, None], "pattern": "^a"}, '"c', REFUSED),
    ({"enum": ["ab", "cb", 3, None], "pattern": "^a"}, "3", ENDS),
    ({"enum": ["ab", "cb"], "allOf": [{"pattern": "^c"}, {"pattern": "b"}]}, '"cb"', ENDS),
    ({"enum": ["ab", "cb"], "allOf": [{"pattern": "^c"}, {"pattern": "b"}]}, '"a', REFUSED),
    ({"enum": [{"b": 1, "a": 2}, {"a": 3}], "required": ["b"]}, '{"b":1,"a":2}', ENDS),
    ({"enum": [{"b": 1, "a": 2}, {"a": 3}], "required": ["b"]}, '{"a', REFUSED),
    (
        {"enum": [{"b": [1], "a": 2}], "properties": {"a": {"type": "integer"}, "b": {}}},
        '{"b":[1],"a":2}',
        ENDS,
    ),
    ({"enum": [[1, 2], [3]], "items": {"maximum": 2}}, "[3", REFUSED),
    ({"enum": [2.0, 7], "type": "integer", "maximum": 3}, "2", ENDS),
    ({"const": 1000.0, "minimum": 5}, "1000.0", ENDS),
    ({"const": "ab", "anyOf": [{"pattern": "^b"}, {"pattern": "b$"}]}, '"ab"', ENDS),
    ({"type": "object", "propertyNames": {"pattern": "^[a-c]+$"}}, '{"ab":1,"c":[]}', ENDS),
    ({"type": "object", "propertyNames": {"pattern": "^[a-c]+$"}}, '{"ab":1,"cd', REFUSED),
    ({"type": "object", "propertyNames": {"enum": ["x", "yy"]}}, '{"yy":1,"x":2}', ENDS),
    ({"type": "object", "propertyNames": {"enum": ["x", "yy"]}}, '{"yx', REFUSED),
    ({"type": "object", "propertyNames": {"minLength": 2, "maxLength": 3}}, '{"é"', REFUSED),
    ({"type": "object", "propertyNames": {"minLength": 2, "maxLength": 3}}, '{"éab":1}', ENDS),
    ({"type": "object", "propertyNames": {"format": "date"}}, '{"2024-02-29":1}', ENDS),
    ({"type": "object", "propertyNames": False}, "{}", ENDS),
    ({"type": "object", "propertyNames": {"type": "integer"}}, '{"', REFUSED),
    (
        {"type": "object", "propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"const": "k"}}},
        '{"k":0}',
        ENDS,
    ),
    ({**A_AND_B, "propertyNames": {"enum": ["b", "c"]}}, '{"b":"x"}', ENDS),
    ({**A_AND_B, "propertyNames": {"enum": ["b", "c"]}}, '{"a', REFUSED),
    (
        {**OPEN_A, "propertyNames": {"pattern": "^a"}},
        '{"a":null,"ab":1}',
        ENDS,
    ),
    (
        {**OPEN_A, "propertyNames": {"pattern": "^a"}},
        '{"ab":1,"a"',
        REFUSED,
    ),
    (
        {
            "type": "object",
            "allOf": [{"propertyNames": {"pattern": "a"}}, {"propertyNames": {"maxLength": 2}}],
        },
        '{"bac',
        REFUSED,
    ),
    ({"type": "string", "pattern": "a", "maxLength": 10**9}, '"bab"', ENDS),
    ({"type": "string", "pattern": "^é\\n$", "minLength": 2}, '"é\\n"', ENDS),
    ({"type": "string", "format": "uri", "maxLength": 2083}, '"http://a.b/c"', ENDS),
    ({"type": "string", "format": "email", "maxLength": 320}, '"a@b.c"', ENDS),
    ({"type": "string", "format": "email", "maxLength": 4}, '"ab@c', BEGINS),
    ({"type": "string", "format": "email", "maxLength": 4}, '"abc', REFUSED),
    ({"const": 'a"b'}, '"a\\"b"', ENDS),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 5}, "-", REFUSED),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 5}, "51", MATCHES),
    ({"oneOf": [{"const": 1}, {"const": 2}]}, "2", ENDS),
    ({"allOf": [{"minimum": 3}, {"maximum": 5}], "type": "integer"}, "6", REFUSED),
    ({"allOf": [{**A_AND_B, "additionalProperties": True}, {"required": ["b"]}]}, "{}", REFUSED),
    ({"allOf": [A_AND_B, {"properties": {"c": True}}]}, '{"c"', REFUSED),
    ({**WORD_FIRST, "allOf": [{"items": {"maxLength": 2}}]}, '["ab","cd"]', ENDS),
    ({**WORD_FIRST, "allOf": [{"items": {"maxLength": 2}}]}, '["abc', REFUSED),
    ({**WORD_FIRST, "allOf": [{"prefixItems": [{}, {"type": "null"}]}]}, '["ab",null]', ENDS),
    ({**WORD_FIRST, "allOf": [{"prefixItems": [{}, {"type": "null"}]}]}, '["ab","', REFUSED),
    ({"items": {"type": "null"}, "anyOf": [WORD_FIRST, {"type": "null"}]}, '["', REFUSED),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "0", BEGINS),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "0.001", MATCHES),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "1.00", MATCHES),
    ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, "0", BEGINS),
    ({"x-guidance": {"whitespace_flexible": True}, **A_AND_B}, '{ "a" :\n 1 ,"b":"" }', ENDS),
    ({"x-guidance": {"key_separator": ": ?"}, **A_AND_B}, '{"a": 1}', ENDS),
    ({"x-guidance": {"key_separator": ":|=>"}, **A_AND_B}, '{"a"=', REFUSED),
    (
        {"title": "T", "description": "d", "default": 1, "examples": [], "type": "null"},
        "null",
        ENDS,
    ),
]


def test_texts(cpp_build: Path) -> None:
    wrong = [
        (schema, text, place, found)
        for schema, text, place in PLACES
        if (found := places(cpp_build, SCHEMA, schema, [text])) != [place]
    ]
    assert not wrong


def test_bounds_of_integers(cpp_build: Path) -> None:
    bounds = [(1, 10), (-5, 5), (3, None), (None, -3), (17, 1234), (0, 0), (-120, -7), (99, 1000)]
    values = range(-300, 1500)
    for low, high in bounds:
        schema = {"type": "integer"}
        schema |= {} if low is None else {"minimum": low}
        schema |= {} if high is None else {"maximum": high}
        found = accepts(cpp_build, SCHEMA, schema, [str(value) for value in values])
        inside = [
            (low is None or value >= low) and (high is None or value <= high) for value in values
        ]
        assert found == inside, schema
    huge = {"type": "integer", "minimum": 10**30, "maximum": 10**30 + 1}
    texts = [str(10**30 + offset) for offset in (-1, 0, 1, 2)]
    assert accepts(cpp_build, SCHEMA, huge, texts) == [False, True, True, False]
    halves = {"type": "integer", "minimum": 1.5, "exclusiveMaximum": 4}
    assert accepts(cpp_build, SCHEMA, halves, list("12345")) == [False, True, True, False, False]


def test_bounds_of_numbers(cpp_build: Path) -> None:
    chance = random.Random(1)
    for _ in range(20):
        low = Decimal(chance.randint(-300, 300)) / chance.choice([1, 10, 100])
        high = low + Decimal(chance.randint(1, 300)) / chance.choice([1, 10, 100])
        open_low, open_high = chance.random() < 0.5, chance.random() < 0.5
        schema = {
            "type": "number",
            "exclusiveMinimum" if open_low else "minimum": float(low),
            "exclusiveMaximum" if open_high else "maximum": float(high),
        }
        texts = [f"{value / 1000:.3f}" for value in range(-4000, 7000, 7)]
        texts += [f"{value / 10:.1f}" for value in range(-40, 70)]
        texts += [str(value) for value in range(-4, 7)] + [f"{low:f}", f"{high:f}"]
        found = accepts(cpp_build, SCHEMA, schema, texts)
        for text, accepted in zip(texts, found, strict=True):
            value = Decimal(text)
            inside = (low < value if open_low else low <= value) and (
                value < high if open_high else value <= high
            )
            negative_zero = text.startswith("-") and value == 0  # zero has no sign in a range
            assert accepted == (inside and not negative_zero), (schema, text)


def test_formats(cpp_build: Path) -> None:
    def accepted(name: str, texts: list[str]) -> list[str]:
        schema = {"type": "string", "format": name}
        found = accepts(cpp_build, SCHEMA, schema, [f'"{text}"' for text in texts])
        return [text for text, accepted in zip(texts, found, strict=True) if accepted]

    days = [
        f"{y}-{m:02}-{d:02}" for y in (1900, 2000, 2023, 2024) for m in range(14) for d in range(33)
    ]
    assert accepted("date", days) == [day for day in days if is_valid(date.fromisoformat, day)]
    chance = random.Random(2)
    parts = [":", "::", "0", "1f", "abcd", "12345", "1:2", "ff:", ":7"]
    addresses = ["".join(chance.choices(parts, k=chance.randint(1, 12))) for _ in range(3000)]
    addresses += [":".join("1" * n) for n in range(1, 10)] + ["::" + ":".join("1" * 7), "1::"]
    assert accepted("ipv6", addresses) == [a for a in addresses if is_valid(IPv6Address, a)]
    numbers = [
        "0.0.0.0",
        "255.255.255.255",
        "1.2.3",
        "256.1.1.1",
        "01.2.3.4",
        "1.2.3.4.5",
        "10.9.199.249",
    ]
    assert accepted("ipv4", numbers) == [n for n in numbers if is_valid(IPv4Address, n)]
    emails = ["a@b", "a.b+c@d-e.fr", ".a@b", "a@-b", "a@b..c", "@b", "a b@c"]
    assert accepted("email", emails) == ["a@b", "a.b+c@d-e.fr"]
    durations = "P1Y P1Y2M3DT4H5M6S P999999Y PT36H P P2W PT P1W2D P1DT P1Y3D P1000000D".split()
    assert accepted("duration", durations) == [*durations[:4], "P2W"]


def is_valid(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def test_what_is_let_through_is_valid(cpp_build: Path) -> None:
    for schema, text, place in PLACES:
        if place in (MATCHES, ENDS) and isinstance(schema, dict) and "items" not in schema:
            validator = jsonschema.Draft202012Validator(schema)
            if schema.get("exclusiveMinimum") is not True:
                validator.validate(json.loads(text))


def test_bytes_that_must_follow(cpp_build: Path) -> None:
    schema = {**CLOSED, "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert forced(cpp_build, SCHEMA, schema, "") == b'{"name":"'
    assert forced(cpp_build, SCHEMA, schema, '{"name":"x"') == b"}"
    assert forced(cpp_build, SCHEMA, schema, '{"name":"x') == b""


REFUSALS: list[tuple[object, str]] = [
    (
        {"prefixItems": [True], "allOf": [{"items": [True]}]},
        "the JSON schema at # joins prefixItems with a list of items: write both as prefixItems",
    ),
    ("{", "the JSON schema cannot be read: the JSON is not valid at line 1, column 2: a key in "
     "quotes is missing at the end"),
    ('{"a":1,\n"a":2}', "the JSON schema cannot be read: the JSON is not valid at line 2, column "
     '4: the key "a" is repeated'),
    (b'{"const":"\xff"}', "the JSON schema cannot be read: the JSON is not valid at line 1, "
     "column 11: a string is not UTF-8"),
    ('{"const":"\\ud800"}', "the JSON schema cannot be read: the JSON is not valid at line 1, "
     "column 17: a surrogate is alone"),
    ("[" * 1000, "the JSON schema cannot be read: the JSON is not valid at line 1, column 130: it "
     "has more than 128 levels"),
    (3, "the JSON schema at # is 3, but must be an object or a boolean"),
    ({"properties": {"a": {"contains": {}}}, "type": "object"},
     'the JSON schema has the keyword "contains" at #/properties/a, which is not supported: leave '
     "it out, and check the answer for it"),
    ({"type": "str"}, 'the JSON schema has the type "str" at #, but it must be null, boolean, '
     "integer, number, string, array or object"),
    ({"type": "integer", "multipleOf": 1001}, "the JSON schema at # has multipleOf 1001, but only "
     "whole numbers from 1 to 1000, and these divided by up to 10^6, are supported"),
    ({"type": "object", "propertyNames": {"if": {"const": "a"}}}, "the JSON schema has the "
     'keyword "if" at #/propertyNames, which is not supported: leave it out, and check the answer '
     "for it"),
    ({"type": "object", "propertyNames": {"pattern": "^a"}, "required": ["b"]},
     "the JSON schema has no text that matches"),
    ({"enum": ["b"], "pattern": "a"}, "the JSON schema has no text that matches"),
    ({"$defs": {"x": {"anyOf": [{"$ref": "#/$defs/x"}]}}, "enum": [[1]],
      "items": {"$ref": "#/$defs/x"}}, "the JSON schema at #/items" + "/anyOf/0" * 64 + " has an "
     "enum beside other keywords that refer to themselves"),
    ({"$ref": "other.json"}, 'the JSON schema at # refers to "other.json", but only references '
     "within it (#/..., an $anchor or an $id) are supported"),
    ({"$ref": "#/$defs/x"}, 'the JSON schema at # refers to "#/$defs/x", which it does not have'),
    ({"$ref": "#"}, "the JSON schema at # has $ref or allOf within each other in more than 64 "
     "levels: write what refers to itself within properties or items"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
     "the JSON schema has no text that matches"),
    (False, "the JSON schema has no text that matches"),
    ({"enum": []}, "the JSON schema has no text that matches"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "the JSON schema has no text that matches"),
    ({"type": "string", "pattern": "(?<=a)b"}, "the JSON schema at # has a pattern that is not "
     "supported: the regular expression '(?<=a)b' is refused at offset 0: a lookbehind is not "
     "supported"),
    ({"type": "string", "pattern": "a.{20}$", "maxLength": 99}, "the JSON schema at # joins "
     "pattern, format, not or lengths of a string, which takes more than 60000 states: write them "
     "as one pattern"),
    ({"pattern": ["a"]}, "the JSON schema at # has a pattern that is not a string"),
    ({"type": "string", "anyOf": [{"pattern": 3}]},
     "the JSON schema at #/anyOf/0 has a pattern that is not a string"),
    ({"allOf": [{}, {"pattern": 3}]},
     "the JSON schema at #/allOf/1 has a pattern that is not a string"),
    ({"minLength": -1}, "the JSON schema at # has minLength -1, but it must be a whole number of "
     "at most 15 digits"),
    ({"x-guidance": {"lenient": True}}, 'the JSON schema\'s x-guidance has "lenient": true, '
     "which is not supported. Use whitespace_flexible (a boolean), item_separator or key_separator "
     "(regular expressions), string_quote (a text), or arguments. The last is an object of "
     "before_name, before_value, behind_value and between (texts), and raw_strings and "
     "python_values (booleans)"),
    ({"x-guidance": {"item_separator": ""}}, "the JSON schema's x-guidance has the separator \"\", "
     'which must match "," with white space before or behind it'),
    ({"x-guidance": {"key_separator": " ?}"}}, "the JSON schema's x-guidance has the separator "
     '" ?}", which must match ":" with white space before or behind it'),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "sentence"), REFUSALS)
def test_refusals(cpp_build: Path, schema: object, sentence: str) -> None:
    text = schema if isinstance(schema, str | bytes) else json.dumps(schema)
    assert refusal(cpp_build, SCHEMA, text) == sentence


def test_hostile_schemas_end_soon(cpp_build: Path) -> None:
    nested: object = {"type": "integer"}
    for _ in range(40):
        nested = {"type": "array", "items": nested}
    assert accepts(cpp_build, SCHEMA, nested, ["[" * 40 + "1" + "]" * 40]) == [True]
    doubling = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(25)}
    doubling["d25"] = {"minimum": 1}
    schema = {"$ref": "#/$defs/d0", "$defs": doubling}
    assert "too many $ref and allOf" in refusal(cpp_build, SCHEMA, schema)
    long = {"type": "string", "minLength": 10**9, "maxLength": 10**9}
    assert places(cpp_build, SCHEMA, long, ['"' + "x" * 1000]) == [BEGINS]
    many = {"enum": [f"value {i} {'x' * (i % 50)}" for i in range(20000)]}
    assert accepts(cpp_build, SCHEMA, many, ['"value 777 ' + "x" * 27 + '"']) == [True]
    chain = {"enum": ["a" * i for i in range(3000)]}
    assert refusal(cpp_build, SCHEMA, chain) == (
        "the JSON schema is too large: it has more than 1000000 steps"
    )
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(2000)}}
    assert accepts(cpp_build, SCHEMA, wide, ['{"p0":"","p1999":"x"}']) == [True]
    union = {"anyOf": [{"$ref": "#"}, {"type": "array", "items": {"$ref": "#"}}, {"const": 1}]}
    assert accepts(cpp_build, SCHEMA, union, ["[[1],[],1]"]) == [True]
