"""Ministral 3: Mistral with YaRN, whose queries grow with their position."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.families.mistral import kinds
from exporter.models.family import Family
from exporter.models.fields import count, positive
from exporter.models.rotary_config import given_rope, original_context
from exporter.models.rotary_spec import Growth
from exporter.models.spec import AttentionSpec, DecoderSpec, LayerSpec

_BETA = "llama_4_scaling_beta"
_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 262144,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    _BETA: 0.1,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    if fields.get("rope_parameters") is None:
        fields["rope_parameters"] = _ROPE
    rope = given_rope(fields)
    plain = {**fields, "rope_parameters": {**rope, _BETA: None}, "rope_scaling": None}
    layer = LayerSpec(_grown(attention(plain), fields, rope), mlp(fields))
    return decoder(fields, windowed(fields, layer, kinds(fields)))


def _grown(
    mixer: AttentionSpec, fields: Mapping[str, Any], rope: Mapping[str, Any]
) -> AttentionSpec:
    """Multiplies queries by 1 + beta * ln(1 + floor(position / original context))."""
    if mixer.rotary is None or not rope.get(_BETA):
        return mixer
    original = count(original_context(fields, rope), "original_max_position_embeddings")
    growth = Growth(positive(rope, _BETA), original)
    return replace(mixer, query_rotary=replace(mixer.rotary, growth=growth))


FAMILY = Family("ministral3", spec)
