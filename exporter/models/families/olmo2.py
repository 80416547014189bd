"""OLMo 2: norms after the blocks and none before, and norms of all queries and keys at once."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.spec import DecoderSpec, LayerSpec, Norms

DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
}
AFTER_ATTENTION = Norms(None, "post_attention_layernorm")
AFTER_MLP = Norms(None, "post_feedforward_layernorm")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    mixer = attention(fields, bias=bias, out_bias=bias, qk_norm="rows")
    layer = LayerSpec(mixer, mlp(fields), AFTER_ATTENTION, AFTER_MLP)
    return decoder(fields, [layer] * count(fields, "num_hidden_layers"))


FAMILY = Family("olmo2", spec)
