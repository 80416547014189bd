"""Qwen3-VL, its text part: as Qwen3, without windows."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.rotary_config import of_text
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "vocab_size": 151936,
    "rms_norm_eps": 1e-6,
    "rope_theta": 500000.0,
    "max_position_embeddings": 128000,
    "num_key_value_heads": 32,
    "head_dim": 128,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = of_text({**_DEFAULTS, **config})
    bias = flag(fields, "attention_bias")
    layer = LayerSpec(attention(fields, bias=bias, out_bias=bias, qk_norm="heads"), mlp(fields))
    return decoder({**fields, "layer_types": None}, [layer] * count(fields, "num_hidden_layers"))


FAMILY = Family("qwen3_vl_text", spec)
