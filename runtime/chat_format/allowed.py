"""Which values a JSON schema allows, for formats that write strings without quotes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        return allowed_by(_target(ref, root), root, depth + 1)
    for name in ("anyOf", "oneOf"):
        if isinstance(parts := schema.get(name), list):
            found = [allowed_by(part, root, depth + 1) for part in parts]
            free = frozenset(kind for one in found for kind in one.kinds)
            return Allowed(free, tuple(value for one in found for value in one.listed))
    if "const" in schema:
        return Allowed(frozenset(), (schema["const"],))
    if isinstance(values := schema.get("enum"), list):
        return Allowed(frozenset(), tuple(values))
    kinds = schema.get("type")
    return Allowed(frozenset(map(str, kinds if isinstance(kinds, list) else [kinds or "string"])))


def _kind(value: Any) -> str:
    return _NAMES.get(type(value), "object")


def _target(ref: str, root: Any) -> Any:
    """What a `$ref` such as #/$defs/NAME points to; None if there is nothing."""
    for part in ref.split("/")[1:]:
        root = root.get(part) if isinstance(root, Mapping) else None
    return root
