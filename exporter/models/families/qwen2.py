"""Qwen2 and Qwen2.5: biases on queries, keys and values; later layers may have a window."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.family import Family
from exporter.models.fields import FULL, count, flag, layer_kinds
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
    return decoder(fields, windowed(fields, layer, kinds(fields)))


def kinds(fields: Mapping[str, Any]) -> list[str]:
    """Returns each layer's kind: as listed, or sliding from max_window_layers on."""
    full = count(fields, "max_window_layers", 28, least=0)
    listed = layer_kinds(fields, lambda index: index >= full)
    if fields.get("sliding_window") is None or not flag(fields, "use_sliding_window"):
        return [FULL] * len(listed)
    return listed


FAMILY = Family("qwen2", spec)
