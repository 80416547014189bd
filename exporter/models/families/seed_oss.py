"""Seed-OSS: Llama with biases on queries, keys and values, and an option for that of the output."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 524288,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attention_bias": True,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias, out_bias = flag(fields, "attention_bias"), flag(fields, "attention_out_bias")
    mixer = attention(fields, bias=bias, out_bias=out_bias)
    layer = LayerSpec(mixer, mlp(fields, flag(fields, "mlp_bias")))
    return decoder(fields, [layer] * count(fields, "num_hidden_layers"))


FAMILY = Family("seed_oss", spec)
