"""Mistral: Llama without biases; if the config has a window, every layer uses it."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, context_limit, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count
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
    layers = [LayerSpec(attention(fields), mlp(fields))] * count(fields, "num_hidden_layers")
    return decoder(fields, layers, context_limit(fields, _window(fields)))


def _window(fields: Mapping[str, Any]) -> int | None:
    return None if fields.get("sliding_window") is None else count(fields, "sliding_window")


FAMILY = Family("mistral", spec)
