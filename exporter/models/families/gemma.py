"""Gemma, the first: Llama with a scaled embedding and norms stored as their distance from 1."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.families import gemma2
from exporter.models.family import Family
from exporter.models.fields import count, flag, refuse
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "bos_token_id": 2,
    "eos_token_id": 1,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    refuse(fields, "use_bidirectional_attention", False)
    if fields["hidden_act"] == "gelu":  # by which the first files mean the other one
        fields["hidden_act"] = "gelu_pytorch_tanh"
    bias = flag(fields, "attention_bias")
    layer = LayerSpec(attention(fields, bias=bias, out_bias=bias), mlp(fields))
    plain = decoder(fields, [layer] * count(fields, "num_hidden_layers"))
    return replace(plain, embedding_scale=plain.hidden_size**0.5)


FAMILY = Family("gemma", spec, gemma2.stored)
