"""Reads the fields of a config.json; an error names the field and what is wrong with it."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exporter.errors import ExportError

_LARGEST = 2.0**128 - 2.0**104  # the largest float32
_MOST = 2**27  # of a size; a matrix with two of them has a number of bytes that fits 64 bits
_MOST_POSITIONS = 2**120  # where there is no limit, files have such numbers too
_OF_POSITIONS = ("max_position_embeddings", "sliding_window")

Fields = Mapping[str, Any]

FULL, SLIDING = LAYER_KINDS = ("full_attention", "sliding_attention")


def count(fields: Fields, name: str, default: int | None = None, least: int = 1) -> int:
    """Returns a whole number of at least `least`; `default` if the field is missing or null."""
    value = fields.get(name)
    value = default if value is None else value
    if value is None:
        raise ExportError(
            f"{name} is missing, but the decoder needs it; use the config.json that was "
            "published with the weights."
        )
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ExportError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
    most = _MOST_POSITIONS if name.endswith(_OF_POSITIONS) else _MOST
    if value > most:
        raise ExportError(f"{name} is {value}; at most {most} is supported.")
    return value


def positive(fields: Fields, name: str) -> float:
    """Returns a number above 0 that fits float32."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ExportError(f"{name} is {value!r}; it must be a number above 0.")
    if value > _LARGEST:
        raise ExportError(
            f"{name} is {value!r}, too large for float32, in which the decoder computes; use the "
            "config.json that was published with the weights."
        )
    return float(value)


def flag(fields: Fields, name: str) -> bool:
    """Returns true or false; false if the field is missing or null."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise ExportError(f"{name} is {value!r}; it must be true or false.")
    return bool(value)


def token_ids(fields: Fields, name: str) -> tuple[int, ...]:
    """Returns the ids of a field that holds one id, a list of ids, or null; -1 is none."""
    value = fields.get(name)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if any(isinstance(token, bool) or not isinstance(token, int) for token in ids):
        raise ExportError(f"{name} is {value!r}; it must be a token id or a list of them.")
    return tuple(token for token in ids if token != -1)


def layer_types(fields: Fields, known: Sequence[str] = LAYER_KINDS) -> list[str]:
    """Returns each layer's kind, one of those known; empty if the config does not list them."""
    kinds = fields.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind not in known for kind in kinds):
        raise ExportError(
            f"layer_types is {kinds!r}; each layer must be one of {', '.join(known)}."
        )
    return kinds


def layer_kinds(fields: Fields, slides: Callable[[int], bool]) -> list[str]:
    """Returns each layer's kind of attention: as listed, or by whether a layer slides."""
    layers, kinds = count(fields, "num_hidden_layers"), layer_types(fields)
    if not kinds:
        return [SLIDING if slides(index) else FULL for index in range(layers)]
    if len(kinds) != layers:
        raise ExportError(f"layer_types lists {len(kinds)} layers; num_hidden_layers is {layers}.")
    return kinds


def refuse(fields: Fields, name: str, *computed: object) -> None:
    """Raises ExportError if a field has a value that is not in `computed`; null has no effect."""
    value = fields.get(name)
    if value is not None and value not in computed:
        allowed = " or ".join(repr(one) for one in computed)
        raise ExportError(f"{name} {value!r} is not supported; supported is {allowed or 'null'}.")
