"""Qwen3: norms on each head's queries and keys instead of Qwen2's biases."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.families.qwen2 import kinds
from exporter.models.family import Family
from exporter.models.fields import flag
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 32,
    "head_dim": 128,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    layer = LayerSpec(attention(fields, bias=bias, out_bias=bias, qk_norm="heads"), mlp(fields))
    return decoder(fields, windowed(fields, layer, kinds(fields)))


FAMILY = Family("qwen3", spec)
