"""Fifty JSON schemas as applications have them, with every keyword that constraints support."""

from typing import Any

Schema = dict[str, Any]

SHORT = {"type": "string", "maxLength": 16}
WORD = {"type": "string", "pattern": "^[a-z]{1,10}$"}
FLAG = {"type": "boolean"}


def record(required: int | None = None, **properties: Any) -> Schema:
    """An object of these properties and no others, the first `required` of them required."""
    names = list(properties)
    needed = names if required is None else names[:required]
    closed = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**closed, "required": needed} if needed else closed


def listed(items: Any, most: int, **others: Any) -> Schema:
    return {"type": "array", "items": items, "maxItems": most, **others}


def integer(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


POINT = record(x=integer(-100, 100), y=integer(-100, 100))
MONEY = record(amount={"type": "number", "minimum": 0, "maximum": 1e4}, currency={"enum": ["EUR"]})
LEAF = {"type": "integer", "minimum": 0, "maximum": 9}
TREE = {
    "$defs": {"tree": {"anyOf": [LEAF, listed({"$ref": "#/$defs/tree"}, 2)]}},
    "$ref": "#/$defs/tree",
}
LINKED = {
    "$defs": {
        "node": record(
            1,
            value=integer(0, 9),
            next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        )
    },
    "anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}],
}

SCHEMAS: list[Schema] = [
    {"type": "null"},
    FLAG,
    {"enum": ["red", "green", "blue", None, 7, [1], {"a": 'b"c'}]},
    {"const": "Grüße"},
    {"const": {"nested": [True, {"deep": 1.5e3}]}},
    integer(0, 150),
    integer(-7, 12345),
    {"type": "integer", "exclusiveMinimum": -20, "exclusiveMaximum": -9},
    {"type": "number", "minimum": -1.5, "maximum": 2.25},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "string", "maxLength": 40},
    {"type": "string", "minLength": 5, "maxLength": 9},
    {"type": "string", "minLength": 300, "maxLength": 310},
    WORD,
    {"type": "string", "pattern": "^(\\+[0-9]{1,3} )?[0-9]{3}-[0-9]{4}$"},
    {"type": "string", "pattern": '^[^"\\\\]{0,8}["\\\\\\n]$'},
    {"type": "string", "pattern": "^[α-ω]{1,5}|日本$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": ["integer", "null"], "minimum": 1, "maximum": 5},
    {"type": ["string", "boolean"], "maxLength": 3},
    listed(integer(0, 9), 5),
    listed(SHORT, 3, minItems=2),
    listed(listed(FLAG, 2), 3, minItems=1),
    {"type": "array", "prefixItems": [WORD, LEAF], "items": False, "minItems": 2},
    {"type": "array", "prefixItems": [LEAF, LEAF, LEAF], "items": FLAG, "maxItems": 4},
    record(),
    record(0, a=LEAF, b=LEAF, c=LEAF),
    record(1, name=SHORT, age=integer(0, 130)),
    record(name=SHORT, tags=listed({"enum": ["new", "sale", "last one"]}, 3), price=MONEY),
    record(0, a=FLAG, b=POINT, c=WORD, d={"type": "null"}, e=listed(LEAF, 2)),
    record(2, id={"type": "string", "format": "uuid"}, at={"type": "string", "format": "date"}),
    record(point=POINT, path=listed(POINT, 2)),
    record(**{"key with spaces": LEAF, 'quo"te': LEAF, "é": LEAF, "tab\t": LEAF}),
    {**record(1, a=LEAF), "required": ["a"], "minimum": 3},
    TREE,
    LINKED,
    {"anyOf": [integer(0, 9), SHORT, FLAG]},
    {"anyOf": [record(kind={"const": "dog"}, age=LEAF), record(kind={"const": "cat"}, at=POINT)]},
    {"oneOf": [integer(10, 19), integer(30, 39)]},
    {"oneOf": [record(a=LEAF), record(b=LEAF)]},
    {"allOf": [integer(0, 50), {"minimum": 40}]},
    {
        "allOf": [
            {"type": "object", "properties": {"a": LEAF, "b": WORD}, "required": ["b"]},
            {"properties": {"c": FLAG, "b": True, "a": True}, "additionalProperties": False},
        ]
    },
    record(choice={"$ref": "#/properties/other"}, other=integer(3, 30)),
    record(
        thought=SHORT,
        tool={"enum": ["search", "read", "answer"]},
        arguments=record(1, query=SHORT, limit=integer(1, 20)),
    ),
    record(
        sentiment={"enum": ["positive", "neutral", "negative"]},
        confidence={"type": "number", "minimum": 0, "maximum": 1},
        reasons=listed(SHORT, 2),
    ),
    record(
        title=SHORT,
        steps=listed(record(text=SHORT, minutes=integer(1, 90)), 3, minItems=1),
        diet=listed({"enum": ["vegan", "vegetarian"]}, 2),
    ),
    record(rows=listed({"type": "array", "prefixItems": [WORD, LEAF], "items": False}, 3)),
    {
        "$defs": {"text": SHORT, "more": {"allOf": [{"$ref": "#/$defs/text"}, {"minLength": 3}]}},
        **record(a={"$ref": "#/$defs/text"}, b={"$ref": "#/$defs/more"}),
        "title": "Two texts",
        "description": "Annotations have no effect.",
        "examples": [],
    },
]
