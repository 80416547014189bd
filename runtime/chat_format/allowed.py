"""Which values a JSON schema allows, for formats that write strings without quotes."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from runtime.chat_format.schemas import matches, target

_MOST_DEPTH = 20  # of schemas in schemas
_BOUNDS = {
    **{"minimum": ge, "maximum": le, "exclusiveMinimum": gt, "exclusiveMaximum": lt},
    "multipleOf": lambda value, step: not isinstance(step, int) or step == 0 or value % step == 0,
}
_LENGTHS = {"minLength": ge, "maxLength": le}
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


@dataclass(frozen=True)
class Allowed:
    """The values of a schema.

    Attributes:
        kinds: the types of those that it does not list.
        listed: those of its `enum` and `const`.
    """

    kinds: frozenset[str]
    listed: tuple[Any, ...] = ()

    @property
    def strings(self) -> list[str]:
        """The strings that are listed."""
        return [value for value in self.listed if isinstance(value, str)]

    @property
    def all_kinds(self) -> frozenset[str]:
        """The types of all values."""
        return self.kinds | {_kind(value) for value in self.listed}


def allowed_by(schema: Any, root: Mapping[str, Any], depth: int = 0) -> Allowed:
    """Returns what a schema allows; strings, where it does not tell.

    Args:
        root: the schema into which a `$ref` points.
    """
    if not isinstance(schema, Mapping) or depth > _MOST_DEPTH:
        return Allowed(frozenset(["string"]))
    if isinstance(ref := schema.get("$ref"), str):
        return allowed_by(target(ref, root), root, depth + 1)
    for name in ("anyOf", "oneOf"):
        if isinstance(parts := schema.get(name), list):
            options = [allowed_by(part, root, depth + 1) for part in parts]
            free = frozenset(kind for one in options for kind in one.kinds)
            return Allowed(free, tuple(value for one in options for value in one.listed))
    if isinstance(parts := schema.get("allOf"), list) and parts:
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        every = [allowed_by(part, root, depth + 1) for part in parts]
        return _common([*every, allowed_by(rest, root, depth)] if _says(rest) else every)
    if "const" in schema:
        return Allowed(frozenset(), (schema["const"],))
    if isinstance(values := schema.get("enum"), list):
        return Allowed(frozenset(), tuple(values))
    kinds = schema.get("type")
    named = map(str, kinds if isinstance(kinds, list) else [kinds or "string"])
    return Allowed(frozenset([*named, *(["null"] if schema.get("nullable") is True else [])]))


def allows(schema: Any, value: Any, root: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a schema allows a value; of a list or an object, whether it allows the type."""
    if not isinstance(schema, Mapping) or depth > _MOST_DEPTH:
        return schema is not False
    if value is None and schema.get("nullable") is True:
        return True
    parts = [target(schema["$ref"], root)] if isinstance(schema.get("$ref"), str) else []
    every = [[part] for part in [*parts, *(_list_of(schema, "allOf") or ())]]
    some = [options for name in ("anyOf", "oneOf") if (options := _list_of(schema, name))]
    if not all(any(allows(one, value, root, depth + 1) for one in part) for part in every + some):
        return False
    kind = _kind(value)
    kinds = _list_of(schema, "type") or [schema.get("type", kind)]
    if kind not in kinds and not (kind == "integer" and "number" in kinds):
        return False
    listed = [schema["const"]] if "const" in schema else _list_of(schema, "enum")
    if listed is not None and not any(_kind(one) == kind and one == value for one in listed):
        return False
    if isinstance(value, str):
        if matches(schema.get("pattern", ""), value) is False:
            return False
        return _is_within(len(value), schema, _LENGTHS)
    return kind not in ("integer", "number") or _is_within(value, schema, _BOUNDS)


def _is_within(number: float, schema: Mapping[str, Any], bounds: Mapping[str, Any]) -> bool:
    limits = ((holds, schema.get(key)) for key, holds in bounds.items())
    return all(holds(number, n) for holds, n in limits if _kind(n) in ("integer", "number"))


def _list_of(schema: Mapping[str, Any], key: str) -> list[Any] | None:
    value = schema.get(key)
    return value if isinstance(value, list) else None


def _says(schema: Mapping[str, Any]) -> bool:
    return not schema.keys().isdisjoint(["$ref", "anyOf", "oneOf", "const", "enum", "type"])


def _common(parts: list[Allowed]) -> Allowed:
    """What all parts allow."""
    listed = next((part.listed for part in parts if not part.kinds), None)
    if listed is not None:
        return Allowed(frozenset(), listed)
    kinds = frozenset.intersection(*(part.kinds for part in parts))
    return Allowed(kinds, tuple(value for part in parts for value in part.listed))


def _kind(value: Any) -> str:
    return _NAMES.get(type(value), "array" if isinstance(value, list) else "object")
