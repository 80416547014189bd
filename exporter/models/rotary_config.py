"""Builds rotary tables from a config.json: from `rope_parameters` in new ones, from `rope_scaling`
and `rope_theta` in older ones. Of both, `rope_scaling` counts, as in transformers."""

import math
from collections.abc import Callable

from exporter.errors import ExportError
from exporter.models.fields import FULL, LAYER_KINDS, SLIDING, Fields, count, flag, positive
from exporter.models.rotary_spec import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RopeScaling,
    RotarySpec,
    YarnScaling,
)

_PROPORTIONAL = "proportional"
_SHARE = "partial_rotary_factor"
_WITHIN = "rope_parameters."
_NOT_COMPUTED = (
    "alpha",
    "llama_4_scaling_beta",
    "long_mscale",
    "mrope_section",
    "short_mscale",
    "xdrope_section",
)


def rotary(fields: Fields, head_dim: int, kind: str | None = None) -> RotarySpec:
    """Returns the rotary table of a config.

    Args:
        kind: the kind of layer, if the config may have a table for each; None: one for all.

    Raises:
        ExportError: a field is missing, wrong, or not supported.
    """
    rope = _rope_fields(fields, kind)
    theta = positive(fields if rope.get("rope_theta") is None else rope, "rope_theta")
    for name in _NOT_COMPUTED:
        if rope.get(name) is not None:
            raise ExportError(
                f"{name} {rope[name]!r} of the rotary embedding is not supported; remove it if the "
                "model does not need it."
            )
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type == _PROPORTIONAL:
        return _proportional(fields, rope, head_dim, theta)
    rotated = _rotated(fields, rope, head_dim)
    table = RotarySpec(head_dim, theta, rotary_dim=None if rotated == head_dim else rotated)
    if rope_type == "default":
        return table
    if not isinstance(rope_type, str) or rope_type not in _SCALINGS:
        known = ", ".join(repr(name) for name in ("default", *_SCALINGS, _PROPORTIONAL))
        raise ExportError(f"rope_type {rope_type!r} is not supported; supported are {known}.")
    by_kind = kind is not None and _is_by_kind(given_rope(fields))
    original = original_context(fields, rope, by_kind)
    whole = {"rope_theta": theta, "max_position_embeddings": fields.get("max_position_embeddings")}
    scaling = _SCALINGS[rope_type]({**rope, **whole, **original}, rotated)
    return RotarySpec(head_dim, theta, scaling, table.rotary_dim)


def whole_heads(table: RotarySpec) -> RotarySpec:
    """Returns the table if it rotates complete heads; raises ExportError otherwise."""
    if table.leading != table.head_dim:
        share = table.rotated / table.head_dim
        raise ExportError(
            f"partial_rotary_factor {share:g} is not supported; this architecture rotates complete "
            "heads (1.0)."
        )
    return table


def rotary_by_kind(fields: Fields, head_dim: int, sliding_theta: float) -> dict[str, RotarySpec]:
    """Returns a table for each kind of layer: `rope_parameters` has one for each, `rope_scaling`
    changes that of full layers.

    Args:
        sliding_theta: the base of sliding layers whose own table has none.
    """
    given, scaling = (rope_object(fields, name) for name in ("rope_parameters", "rope_scaling"))
    if given and not _is_by_kind(given):
        raise ExportError(
            f"rope_parameters is {dict(given)!r}; this architecture has a table for each kind of "
            f"layer: name them, {' and '.join(LAYER_KINDS)}."
        )
    if _is_by_kind(scaling):
        raise ExportError(
            f"rope_scaling is {dict(scaling)!r}; a table for each kind of layer must be in "
            "rope_parameters."
        )
    if "type" in scaling and "rope_type" not in scaling:  # transformers reads rope_type alone here
        raise ExportError(
            f"rope_scaling has the type {scaling['type']!r}; this architecture reads it from "
            "rope_type: call it so."
        )
    tables = {
        FULL: {**rope_object(given, FULL, _WITHIN), **scaling},
        SLIDING: {"rope_theta": sliding_theta, **rope_object(given, SLIDING, _WITHIN)},
    }
    # As in transformers, what is said outside the tables holds for both.
    plain = {**fields, "rope_scaling": None, "rope_parameters": {**given, **tables}}
    return {kind: whole_heads(rotary(plain, head_dim, kind)) for kind in (FULL, SLIDING)}


def longest_context(fields: Fields, table: RotarySpec | None) -> int:
    """Returns the longest context: more than max_position_embeddings if the scaling allows it."""
    longest = count(fields, "max_position_embeddings")
    match table and table.scaling:
        case YarnScaling(factor, original) | DynamicScaling(factor, original):
            return max(longest, int(factor * original))
    return longest


def given_rope(fields: Fields) -> Fields:
    """Returns the rotary fields of all kinds of layers: `rope_scaling`'s, if there are any."""
    return rope_object(fields, "rope_scaling") or rope_object(fields, "rope_parameters")


def of_text(fields: Fields) -> Fields:
    """Returns the fields of a model that rotates by time, height and width, which all are the
    position in a text: without the parts of the rotation that each has."""
    of_images = ("mrope_section", "mrope_interleaved")
    rope = {name: value for name, value in given_rope(fields).items() if name not in of_images}
    return {**fields, "rope_parameters": rope, "rope_scaling": None}


def rope_object(fields: Fields, name: str, within: str = "") -> Fields:
    """Returns a field that holds rotary fields; empty if it is missing or null."""
    rope = fields.get(name)
    if rope and not isinstance(rope, dict):
        raise ExportError(f"{within}{name} is {rope!r}; it must be an object or null.")
    return rope or {}


def _is_by_kind(rope: Fields) -> bool:
    return any(kind in rope for kind in LAYER_KINDS)


def _rope_fields(fields: Fields, kind: str | None) -> Fields:
    """Returns the rotary fields of one kind of layer."""
    rope = given_rope(fields)
    if not _is_by_kind(rope):
        return rope
    if kind is None:
        kinds = ", ".join(key for key in rope if key in LAYER_KINDS)
        raise ExportError(
            f"rope_parameters has a table for each kind of layer ({kinds}); this architecture has "
            "one table for all layers."
        )
    # As in transformers, `truncate` is read outside the tables.
    return {**rope_object(rope, kind, _WITHIN), "truncate": rope.get("truncate", True)}


def _rotated(fields: Fields, rope: Fields, head_dim: int) -> int:
    """Returns how many numbers of a head rotate."""
    share = _share(fields, rope)
    if share is None:
        return head_dim
    rotated = int(head_dim * share)
    if share > 1 or rotated < 2 or rotated % 2:
        raise ExportError(
            f"{_SHARE} {share!r} of head_dim {head_dim} is {rotated} numbers; it must be an even "
            f"number from 2 to {head_dim}."
        )
    return rotated


def _share(fields: Fields, rope: Fields) -> float | None:
    """Returns which share of a head rotates; None: the config does not say."""
    source = fields if rope.get(_SHARE) is None else rope
    return None if source.get(_SHARE) is None else positive(source, _SHARE)


def _proportional(fields: Fields, rope: Fields, head_dim: int, theta: float) -> RotarySpec:
    """Returns the table of heads of which the first pairs rotate, each as in a head that rotates
    completely."""
    share = _share(fields, rope) or 1.0
    rotated = 2 * int(share * head_dim // 2)
    if share > 1 or rotated < 2:
        raise ExportError(
            f"{_SHARE} {share!r} of head_dim {head_dim} is {rotated} numbers; it must be from 2 to "
            f"{head_dim}."
        )
    factor = 1.0 if rope.get("factor") is None else positive(rope, "factor")
    scaling = None if factor == 1.0 else LinearScaling(factor)
    if rotated == head_dim:
        return RotarySpec(head_dim, theta, scaling)
    return RotarySpec(head_dim, theta, scaling, rotated, proportional=True)


def original_context(fields: Fields, rope: Fields, by_kind: bool = False) -> Fields:
    """Returns the original context. The config's own field goes first, as in transformers, unless
    there is a table for each kind of layer."""
    name = "original_max_position_embeddings"
    for source in (rope,) if by_kind else (fields, rope):
        if source.get(name) is not None:
            return {name: source[name]}
    return {name: fields.get("max_position_embeddings")}


def _linear(fields: Fields, rotated: int) -> LinearScaling:
    return LinearScaling(positive(fields, "factor"))


def _dynamic(fields: Fields, rotated: int) -> DynamicScaling:
    if rotated < 4:
        raise ExportError(
            f"rope_type 'dynamic' needs heads of which at least 4 numbers rotate, not {rotated}."
        )
    factor = positive(fields, "factor")
    if factor < 1:
        raise ExportError(f"factor is {factor!r}; of rope_type 'dynamic' it must be at least 1.")
    return DynamicScaling(factor, count(fields, "max_position_embeddings"))


def _llama3(fields: Fields, rotated: int) -> Llama3Scaling:
    scaling = Llama3Scaling(
        positive(fields, "factor"),
        positive(fields, "low_freq_factor"),
        positive(fields, "high_freq_factor"),
        count(fields, "original_max_position_embeddings"),
    )
    if scaling.high_freq_factor <= scaling.low_freq_factor:
        raise ExportError(
            f"high_freq_factor {scaling.high_freq_factor} is not above low_freq_factor "
            f"{scaling.low_freq_factor}; it must be, because the frequencies between them are "
            "interpolated."
        )
    return scaling


def _yarn(fields: Fields, rotated: int) -> YarnScaling:
    factor, original = _factor(fields)
    if fields.get("attention_factor") is not None:
        magnitude = positive(fields, "attention_factor")
    elif fields.get("mscale") and fields.get("mscale_all_dim"):
        magnitude = _mscale(factor, positive(fields, "mscale"))
        magnitude /= _mscale(factor, positive(fields, "mscale_all_dim"))
    else:
        magnitude = _mscale(factor, 1.0)
    fast = positive(fields, "beta_fast") if fields.get("beta_fast") else 32.0
    slow = positive(fields, "beta_slow") if fields.get("beta_slow") else 1.0
    if fast < slow:
        raise ExportError(f"beta_fast {fast} is below beta_slow {slow}; exchange them.")
    if positive(fields, "rope_theta") <= 1:
        raise ExportError(f"rope_theta {fields['rope_theta']!r} is too small for rope_type 'yarn'.")
    truncate = "truncate" not in fields or flag(fields, "truncate")  # null is false
    return YarnScaling(factor, original, fast, slow, truncate, magnitude)


def _mscale(factor: float, mscale: float) -> float:
    """Returns the magnitude of YaRN's section 3.4."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _longrope(fields: Fields, rotated: int) -> LongRopeScaling:
    factor, original = _factor(fields)
    if fields.get("attention_factor") is not None:
        magnitude = positive(fields, "attention_factor")
    elif factor <= 1 or original < 2:
        magnitude = 1.0
    else:
        magnitude = math.sqrt(1 + math.log(factor) / math.log(original))
    short, long = (_factors(fields, f"{name}_factor", rotated // 2) for name in ("short", "long"))
    return LongRopeScaling(short, long, original, magnitude)


def _factor(fields: Fields) -> tuple[float, int]:
    """Returns the factor on the context, and the original context."""
    original = count(fields, "original_max_position_embeddings")
    if fields.get("factor") is not None:
        return positive(fields, "factor"), original
    return count(fields, "max_position_embeddings") / original, original


def _factors(fields: Fields, name: str, pairs: int) -> tuple[float, ...]:
    factors = fields.get(name)
    if not isinstance(factors, list) or len(factors) != pairs:
        given = f"{len(factors)} numbers" if isinstance(factors, list) else repr(factors)
        raise ExportError(
            f"{name} is {given}; it must list a factor for each of the {pairs} pairs that rotate."
        )
    return tuple(positive({name: factor}, name) for factor in factors)


_SCALINGS: dict[str, Callable[[Fields, int], RopeScaling]] = {
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,  # its older name
    "llama3": _llama3,
}
