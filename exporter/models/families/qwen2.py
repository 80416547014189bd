"""Qwen2 and Qwen2.5: biases on queries, keys and values; later layers may have a window."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, context_limit, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag, layer_types
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 32,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    layer = LayerSpec(attention(fields, bias=True), mlp(fields))
    layers = [layer] * count(fields, "num_hidden_layers")
    return decoder(fields, layers, context_limit(fields, window(fields)))


def window(fields: Mapping[str, Any]) -> int | None:
    """Returns the window of Qwen's layers; None if no layer has one."""
    if fields.get("sliding_window") is None or not flag(fields, "use_sliding_window"):
        return None
    kinds = layer_types(fields)
    if kinds:
        slides = "sliding_attention" in kinds
    else:
        full = count(fields, "max_window_layers", 28, least=0)
        slides = full < count(fields, "num_hidden_layers")
    return count(fields, "sliding_window") if slides else None


FAMILY = Family("qwen2", spec)
