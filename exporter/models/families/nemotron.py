"""Nemotron and Minitron: LayerNorms stored as their distance from 1, squared ReLU without a gate,
and heads of which a half rotates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention
from exporter.models.families.phi import rotated
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.rotary_config import rotary
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "max_position_embeddings": 4096,
    "hidden_act": "relu2",
    "bos_token_id": 2,
    "eos_token_id": 3,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    fields["rms_norm_eps"] = fields["norm_eps"]
    bias = flag(fields, "attention_bias")
    mixer = unrotated_attention(fields, bias=bias, out_bias=bias)
    mixer = replace(mixer, rotary=rotary(fields, mixer.head_dim))
    layer = LayerSpec(mixer, mlp(fields, flag(fields, "mlp_bias"), gated=False))
    plain = decoder(fields, [layer] * count(fields, "num_hidden_layers"))
    return replace(plain, norm="layer_with_bias")


def stored(spec: DecoderSpec, name: str) -> Stored:
    kept = rotated(spec, name, Stored((name,)))
    return kept.plus_one() if name.endswith("norm.weight") else kept


FAMILY = Family("nemotron", spec, stored)
