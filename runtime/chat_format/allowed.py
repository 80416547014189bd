"""Which kinds of value a JSON schema allows, for formats that write strings without quotes."""

from collections.abc import Mapping
from typing import Any

_MOST_DEPTH = 20  # of schemas in schemas
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def kinds_of(schema: Any, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """Returns the types that a schema allows; a string, where it does not tell.

    Args:
        root: the schema into which a `$ref` points.
    """
    if not isinstance(schema, Mapping) or depth > _MOST_DEPTH:
        return {"string"}
    if isinstance(ref := schema.get("$ref"), str):
        return kinds_of(_target(ref, root), root, depth + 1)
    for name in ("anyOf", "oneOf"):
        if isinstance(parts := schema.get(name), list):
            return {kind for part in parts for kind in kinds_of(part, root, depth + 1)}
    if "const" in schema:
        return {_NAMES.get(type(schema["const"]), "object")}
    if isinstance(values := schema.get("enum"), list):
        return {_NAMES.get(type(value), "object") for value in values}
    kinds = schema.get("type")
    return {str(kind) for kind in (kinds if isinstance(kinds, list) else [kinds or "string"])}


def _target(ref: str, root: Any) -> Any:
    """What a `$ref` such as #/$defs/NAME points to; None if there is nothing."""
    for part in ref.split("/")[1:]:
        root = root.get(part) if isinstance(root, Mapping) else None
    return root
