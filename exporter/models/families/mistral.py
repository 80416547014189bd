"""Mistral: Llama without biases. All layers have a window, or those that the config lists."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.family import Family
from exporter.models.fields import FULL, SLIDING, count, layer_kinds, layer_types
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    listed = layer_kinds(fields, lambda _: True) if layer_types(fields) else kinds(fields)
    return decoder(fields, windowed(fields, LayerSpec(attention(fields), mlp(fields)), listed))


def kinds(fields: Mapping[str, Any]) -> list[str]:
    """Returns each layer's kind: all are sliding if there is a window."""
    kind = FULL if fields.get("sliding_window") is None else SLIDING
    return [kind] * count(fields, "num_hidden_layers")


FAMILY = Family("mistral", spec)
