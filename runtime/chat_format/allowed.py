"""Which values a JSON schema allows, for formats that write strings without quotes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.chat_format.schemas import target

_MOST_DEPTH = 20  # of schemas in schemas
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
            found = [allowed_by(part, root, depth + 1) for part in parts]
            free = frozenset(kind for one in found for kind in one.kinds)
            return Allowed(free, tuple(value for one in found for value in one.listed))
    if isinstance(parts := schema.get("allOf"), list) and parts:
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        every = [allowed_by(part, root, depth + 1) for part in parts]
        return _common([*every, allowed_by(rest, root, depth)] if _says(rest) else every)
    if "const" in schema:
        return Allowed(frozenset(), (schema["const"],))
    if isinstance(values := schema.get("enum"), list):
        return Allowed(frozenset(), tuple(values))
    kinds = schema.get("type")
    return Allowed(frozenset(map(str, kinds if isinstance(kinds, list) else [kinds or "string"])))


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
    return _NAMES.get(type(value), "object")
