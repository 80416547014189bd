"""Llama, and the many models with its model_type, such as SmolLM2."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 2048}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    layer = LayerSpec(
        attention(fields, bias=bias, out_bias=bias), mlp(fields, flag(fields, "mlp_bias"))
    )
    layers = [layer] * count(fields, "num_hidden_layers")
    return decoder(fields, layers)


FAMILY = Family("llama", spec)
