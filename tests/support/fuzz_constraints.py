"""Constraints that fuzz_constraint begins with: schemas, regular expressions, choices, grammars."""

import json
import random

from support.answer_schemas import SCHEMAS
from support.random_patterns import random_pattern

# The first byte is the kind, and RELAXED added to it.
SCHEMA, REGEX, CHOICE, GRAMMAR, RELAXED = range(5)
FORMATS = (
    *("date", "time", "date-time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri"),
    *("base64", "base64url"),
)
NUMBERS = {"minimum": -3, "exclusiveMaximum": 70.5, "multipleOf": 0.25, "maximum": 60}
TEXTS = {"minLength": 1, "maxLength": 8, "pattern": "[a-z]", "format": "hostname"}
LISTS = {"items": {"type": "integer"}, "minItems": 1, "maxItems": 4, "uniqueItems": True}
OBJECTS = {
    **{"properties": {"a": {"type": ["integer", "null"]}, "b": False}, "required": ["a"]},
    **{"patternProperties": {"^x": {"type": "boolean"}}, "propertyNames": {"maxLength": 3}},
    **{"minProperties": 1, "maxProperties": 3, "additionalProperties": {"type": "string"}},
}
KINDS: tuple[dict[str, object], ...] = (NUMBERS, TEXTS, LISTS, OBJECTS)
VALUES = ["ab", "", 1, 2.5, -7, True, None, [], [1, 2], {"a": 1}, {"x": True}]
# Of each keyword, two values that an allOf joins.
JOINED: dict[str, tuple[object, object]] = {
    "type": (["number", "null", "string"], ["integer", "string"]),
    "enum": ([1, 2, "a", None], [2, "a", 2.0]),
    "const": (1, 2),
    "required": (["a"], ["b", "a"]),
    "properties": ({"a": {"minLength": 1}}, {"a": {"maxLength": 3}, "b": {}}),
    "items": ({"type": "integer"}, {"minimum": 3}),
    "prefixItems": ([{"type": "integer"}], [{}, {"type": "null"}]),
    "pattern": ("^a", "b$"),
    "format": ("date", "time"),
    "not": ({"type": "null"}, {"anyOf": [{"const": 1}, {"type": "boolean"}]}),
    "anyOf": ([{"type": "null"}, {"const": 3}], [{"type": "integer"}, {}]),
    "oneOf": ([{"type": "null"}] * 40, [{"type": "integer"}] * 40),
    "multipleOf": (3, 5),
    "uniqueItems": (True, False),
}
NOTS = (
    *({"not": value} for value in ({"pattern": "a"}, {"required": ["a"]}, {"minimum": 3}, {})),
    {"type": "string", "not": {"pattern": "^a"}, "maxLength": 4},
    {"type": "object", "not": {"required": ["a"]}, "properties": {"a": {}, "b": {}}},
    {"type": "integer", "not": {"enum": [0, 5, "a"]}, "minimum": -3, "maximum": 9},
    {"type": "integer", "not": {"enum": [0]}, "multipleOf": 7},
    {"type": ["array", "boolean"], "not": {"enum": [[1], True, None]}},
)
WRONG = (
    *({key: 5} for key in ("anyOf", "enum", "required", "prefixItems", "$ref", "type", "format")),
    *({key: "a"} for key in ("minimum", "minItems", "maxLength", "multipleOf", "items", "not")),
    *({"minItems": 1.5}, {"minimum": 10**500}, {"multipleOf": 1 / 3}, {"maxLength": 10**16}),
    *({"pattern": "("}, {"pattern": 5}, {"patternProperties": {"(": {}}}, {"properties": [1]}),
    {"items": [{}, {"type": "null"}], "additionalItems": {"type": "integer"}},
    {"items": {"enum": [1, 1, 2, "a", None]}, "uniqueItems": True, "minItems": 2, "maxItems": 3},
    {"propertyNames": {"enum": ["a", "b"]}, "enum": [{"a": 1}, {"c": [1, {"b": None}]}]},
)
GUIDANCE: tuple[object, ...] = (
    *({"string_quote": "'"}, {"string_quote": "<|b|>"}, {"string_quote": ""}, {"else": 1}, 5),
    *({"key_separator": " ?}"}, {"item_separator": "("}, {"item_separator": ""}),
    {"coerce_one_of": True, "whitespace_flexible": True},
)
# Calls of models whose arguments are no JSON.
TEXTS_AROUND = {"before_name": "<", "before_value": ">", "behind_value": "</p>", "between": "\n"}
FORMS = (
    {**TEXTS_AROUND, "raw_strings": True, "python_values": True},
    *({**TEXTS_AROUND, "python_values": True}, {"before_value": "="}, {"raw_strings": True}, 5),
)
ARGUMENTS = {
    "properties": {
        **{"s": {"type": "string"}, "n": {"type": ["number", "null"]}, "l": {"enum": [True, "x"]}},
        **{"e": {"const": {"a": [1, "</p>"]}}, "any": {}, "o": {"type": "object"}},
    },
    "required": ["s", "e"],
}
FURTHER: tuple[object, ...] = (
    *({"enum": VALUES, **kind} for kind in KINDS),
    *({"allOf": [{"enum": VALUES}, kind, {"not": {"const": 1}}]} for kind in KINDS),
    *({"allOf": [{key: value} for key, value in kind.items()]} for kind in KINDS),
    *({"allOf": [kind, {"anyOf": [kind, {"type": "null"}]}]} for kind in KINDS),
    *({"anyOf": [kind, {"const": "ab"}], "not": {"anyOf": [{"type": "null"}]}} for kind in KINDS),
    *(
        {"$ref": f"#/$defs/{name}", "$defs": {"a/b~ c": {"$ref": "#"}, "n": [{}, NUMBERS]}}
        for name in ("a~1b~0%20c", "n/1", "n/9", "none")
    ),
    *(
        {"$ref": name, "$defs": {"p": {"$id": "u:x", "$anchor": "here", "type": "null"}}}
        for name in ("u:x", "#here", "http://else")
    ),
    {"anyOf": [{"items": {"$ref": "#/$defs/n"}, "minItems": 1, "maxItems": 3}, {"const": None}]}
    | {"$defs": {"n": {"type": "number", "multipleOf": 0.5}}},
    {"allOf": [OBJECTS, {"properties": {"a": {"minimum": 5}, "c": {}}, "required": ["c"]}]}
    | {"unevaluatedProperties": False},
    {"oneOf": [{"type": "integer", "maximum": 5}, {"type": "string"}], "discriminator": {}},
    {"prefixItems": [{"type": "null"}], "unevaluatedItems": False, "maxProperties": 2},
    {"properties": {"b": True, "a": False}, "propertyOrdering": ["b", "a"]},
    {"if": {"type": "string"}, "then": {"maxLength": 2}, "dependentRequired": {"a": ["b"]}},
    {"type": "array", "items": {}, "x-guidance": {"whitespace_flexible": False}},
    {"type": "object", "x-guidance": {"item_separator": ", ", "key_separator": ": "}},
    {"type": "integer", "multipleOf": 7, "minimum": -50, "maximum": 1e3},
    {"type": "number", "minimum": 5, "maximum": 2},
    {"type": "string", "minLength": 9, "maxLength": 1},
    {"type": "wrong"},
    {"properties": 5},
    {"const": "a\u00e9\U0001f600\u0001"},
    True,
    False,
    *({"allOf": [{key: one}, {key: other}]} for key, (one, other) in JOINED.items()),
    *NOTS,
    *WRONG,
    *({**OBJECTS, "x-guidance": options} for options in GUIDANCE),
    *({**ARGUMENTS, "x-guidance": {"arguments": form}} for form in FORMS),
)
REGEXES = (
    r"(?:a|b*c){2,4}[^\d\s]+\.?",
    r"^\w+@[a-z]{1,9}\b(?=x)$",
    r"\p{Lu}[\x41-\u00e9]*?|(?i:q)",
    r"(?<name>\u{1F600}|[\w\-\]]{0,9})\B.\D\S\W\t\n\0\cA|\P{Ll}(?!b)",
    r"(?s).(?-s:.)(?m)^$|[[:alpha:]]|\/\.\*{3,}?",
    r"(?<=a)b",
    r"\k<n>|\1",
    "[z-a]",
    "a{3,2}",
    "(((",
    r"[\w--\d]\p{Greek}\p{No such}",
    r"[^\W\d_]{3}\u00e9\xe9\v\f\r[\b]",
)
GRAMMARS = (
    'root ::= item+ ("," ws item)* # list\nitem ::= [a-z0-9]{1,3} | "x" | "(" root ")"\n'
    "ws ::= [ \\t\\n]*\n",
    'root ::= [^"\\\\\\x7F]{2,} "\\u00e9" <[5]> | !"a"\n',
    'root ::= root "a" | b\nb ::= root "c"? | "\\U0001F600" . [\\]\\-]\n',
    'root ::= a %json {"type": ["array", "null"], "maxItems": 2}{2}\na ::= "a"?',
    'root ::= (<"\\x41"> | <|b|> | <[12]> | !<[3]>) "x"{0} ""\n',
    "root ::= a",
    'root ::= "a',
    "a ::= [b",
    'root ::= "a"{5,2} | (',
    'root ::= <[99999]> "\\q"',
    "root ::= %json {]",
    'root ::= ("a" | "") root?\n# end',
)


def constraints() -> list[bytes]:
    chance = random.Random(0)
    schemas = [*SCHEMAS, *FURTHER, *({"type": "string", "format": name} for name in FORMATS)]
    schemas.append({"type": "string", "format": "date", "maxLength": 10, "pattern": "^2"})
    texts = [(SCHEMA, json.dumps(schema, ensure_ascii=False)) for schema in schemas]
    texts += [(REGEX, text) for text in (*REGEXES, *(random_pattern(chance) for _ in range(30)))]
    texts.append((CHOICE, '["yes","no","\\u00e9", "\\ud83d\\ude00"]'))
    texts += [(GRAMMAR, text) for text in GRAMMARS]
    made = [bytes([kind]) + text.encode() for kind, text in texts]
    return made + [bytes([SCHEMA + RELAXED]) + text[1:] for text in made[: len(schemas)]]
