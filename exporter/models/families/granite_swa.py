"""Granite with sinks and, in three of four layers, a window. Each layer may have a rotary base of
its own, or none."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.config import attention, mlp, windowed
from exporter.models.families import granite
from exporter.models.family import Family
from exporter.models.fields import flag, layer_kinds, positive
from exporter.models.rotary_config import given_rope, rotary, whole_heads
from exporter.models.spec import DecoderSpec, LayerSpec, RotarySpec

_DEFAULTS = {
    **granite.DEFAULTS,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192,
    "num_key_value_heads": 4,
    "sliding_window": 128,
    "tie_word_embeddings": True,
    "eos_token_id": 100257,
}
_PATTERN = 4  # of as many layers the first sees all positions


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    mixer = replace(attention(fields, bias=bias, out_bias=bias), sinks=True)
    layer = LayerSpec(mixer, mlp(fields, flag(fields, "mlp_bias")))
    kinds = layer_kinds(fields, lambda index: index % _PATTERN != 0)
    layers = windowed(fields, layer, kinds)
    tables = _tables(fields, mixer.head_dim, len(layers))
    if tables is not None:
        pairs = zip(layers, tables, strict=True)
        layers = [replace(x, mixer=replace(x.attention, rotary=table)) for x, table in pairs]
    return granite.multiplied(fields, layers)


def _tables(
    fields: Mapping[str, Any], head_dim: int, layers: int
) -> list[RotarySpec | None] | None:
    """Returns each layer's table; None: all have the same."""
    bases = fields.get("layer_rope_theta")
    if bases is None:
        return None
    if not isinstance(bases, list) or len(bases) != layers:
        raise ExportError(
            f"layer_rope_theta is {bases!r}; it must list a base, or 0 for no rotation, for "
            f"each of the {layers} layers."
        )
    tables: dict[float, RotarySpec | None] = {0: None}
    for base in bases:
        if base != 0 and base not in tables:
            theta = {"rope_theta": positive({"layer_rope_theta": base}, "layer_rope_theta")}
            rope = {"rope_scaling": None, "rope_parameters": {**given_rope(fields), **theta}}
            tables[base] = whole_heads(rotary({**fields, **rope}, head_dim))
    return [tables[base] for base in bases]


FAMILY = Family("granite_swa", spec, granite.stored)
