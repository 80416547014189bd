"""JSON schemas of a call's arguments: which properties they have, each with a schema of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from runtime.bounded_regex import BoundedRegex

_MOST_DEPTH = 20  # of references and allOf in each other
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_DATA = ("const", "enum", "default", "example", "examples")  # keywords whose values are no schemas


@dataclass
class Property:
    """Where a schema tells what a property is: JSON pointers, as in `$ref`.

    Attributes:
        options: further places, of which one holds.
    """

    places: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    required: bool = False


def properties_of(root: Mapping[str, Any]) -> dict[str, Property]:
    """Returns the properties of an object's schema, those of its `$ref`, `allOf`, `anyOf` and
    `oneOf` included."""
    properties: dict[str, Property] = {}
    required: set[str] = set()

    def walk(schema: Any, place: str, depth: int, is_option: bool = False) -> None:
        if not isinstance(schema, Mapping) or depth > _MOST_DEPTH:
            return
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                walk(target(value, root), value, depth + 1, is_option)
            elif key in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
                for n, part in enumerate(value):
                    walk(part, f"{place}/{key}/{n}", depth + 1, is_option or key != "allOf")
            elif key == "properties" and isinstance(value, Mapping):
                for name in value:
                    one = properties.setdefault(name, Property())
                    places = one.options if is_option else one.places
                    places.append(f"{place}/properties/{_escaped(name)}")
            elif key == "required" and isinstance(value, list | tuple) and not is_option:
                required.update(name for name in value if isinstance(name, str))

    walk(root, "#", 0)
    for name in sorted(required - properties.keys()):  # of any value
        properties[name] = Property()
    for name in required:
        properties[name].required = True
    return properties


def unlisted_place(name: str, root: Mapping[str, Any]) -> str | None:
    """Where a schema tells what a property is that its `properties` lack; None: nowhere."""
    patterns = root.get("patternProperties")
    for pattern in patterns if isinstance(patterns, Mapping) else ():
        if matches(pattern, name):
            return f"#/patternProperties/{_escaped(pattern)}"
    return "#/additionalProperties" if "additionalProperties" in root else None


def matches(pattern: Any, text: str) -> bool | None:
    """Whether a part of a text is as a pattern says; None: it is none, or nobody knows in time."""
    try:
        return BoundedRegex(pattern).search(text)
    except (TypeError, ValueError):
        return None


def schema_at(places: list[str], root: Mapping[str, Any], options: Sequence[str] = ()) -> Any:
    """Returns a schema that stands alone, of what all places in a schema say together, and one of
    the options."""
    parts: list[dict[str, Any]] = [{"$ref": moved(place)} for place in places]
    if options:
        parts.append({"anyOf": [{"$ref": moved(place)} for place in options]})
    if not parts:
        return True
    (_, *others) = parts
    schema = target(places[0], root) if places else None
    if not others and not options and not any(_references(schema)):
        return schema
    own = parts[0] if not others else {"allOf": parts}
    return {**own, "$defs": {"parameters": _with_moved(root)}}


def moved(reference: str) -> str:
    """A reference into the parameters, where these are a definition of another schema."""
    return "#/$defs/parameters" + reference[1:] if reference[:1] == "#" else reference


def target(reference: str, root: Any) -> Any:
    """What a `$ref` such as #/$defs/NAME points to; None if there is nothing."""
    for part in reference.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(root, Mapping):
            root = root.get(name)
        elif isinstance(root, list) and name.isascii() and name.isdigit() and int(name) < len(root):
            root = root[int(name)]
        else:
            return None
    return root


def with_pointers(root: Any) -> Any:
    """The schema with JSON pointers for references to the `$id` or `$anchor` of a part of it."""
    if all(reference[:2] in ("#", "#/") for reference in _references(root)):
        return root
    places = dict(reversed(list(_names(root, "#"))))  # of several with one name, the first counts

    def pointed(schema: Any) -> Any:
        changed = _parts_changed(schema, pointed)
        if isinstance(changed, dict) and isinstance(reference := changed.get("$ref"), str):
            name, mark, pointer = reference.partition("#/")
            place = places.get(name.removesuffix("#"))
            changed["$ref"] = reference if place is None else place + mark[1:] + pointer
        return changed

    return pointed(root)


def _names(schema: Any, place: str) -> Iterator[tuple[str, str]]:
    """The names by which a `$ref` may call parts of a schema, each with its place."""
    if isinstance(schema, list):
        for n, part in enumerate(schema):
            yield from _names(part, f"{place}/{n}")
    if not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        own = f"{place}/{_escaped(key)}"
        if key in ("$id", "id", "$anchor") and isinstance(value, str):
            yield ("#" + value if key == "$anchor" else value.removesuffix("#")), place
        elif key in _BY_NAME and isinstance(value, Mapping):
            for name, part in value.items():
                yield from _names(part, f"{own}/{_escaped(name)}")
        elif key not in _DATA:
            yield from _names(value, own)


def with_sorted_properties(schema: Any) -> Any:
    """The schema with all its properties in the order of their names."""
    changed = _parts_changed(schema, with_sorted_properties)
    if isinstance(changed, dict) and isinstance(listed := changed.get("properties"), dict):
        changed["properties"] = dict(sorted(listed.items()))
    return changed


def _with_moved(schema: Any) -> Any:
    changed = _parts_changed(schema, _with_moved)
    if isinstance(changed, dict) and isinstance(reference := changed.get("$ref"), str):
        changed["$ref"] = moved(reference)
    return changed


def _parts_changed(schema: Any, change: Callable[[Any], Any]) -> Any:
    """The schema with its parts changed that are schemas themselves, or lists of them."""
    if isinstance(schema, list):
        return [change(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: {name: change(part) for name, part in value.items()}
        if key in _BY_NAME and isinstance(value, Mapping)
        else value
        if key in _DATA
        else change(value)
        for key, value in schema.items()
    }


def _references(schema: Any) -> Iterator[str]:
    """The `$ref`s in a schema."""
    parts = schema.values() if isinstance(schema, Mapping) else schema
    if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"]
    if isinstance(schema, Mapping | list):
        for part in parts:
            yield from _references(part)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
