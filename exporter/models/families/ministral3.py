"""Ministral 3: Mistral with YaRN, whose queries grow with their position."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.families.mistral import kinds
from exporter.models.family import Family
from exporter.models.fields import count, positive
from exporter.models.rotary_spec import Growth
from exporter.models.spec import AttentionSpec, DecoderSpec, LayerSpec

_BETA = "llama_4_scaling_beta"
_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 262144,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ROPE = {
    "rope_type": "yarn",
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    _BETA: 0.1,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    rope = fields.get("rope_parameters") or fields.get("rope_scaling") or _ROPE
    mixer = attention({**fields, "rope_parameters": _without_beta(rope)})
    layer = LayerSpec(_grown(mixer, rope), mlp(fields))
    return decoder(fields, windowed(fields, layer, kinds(fields)))


def _without_beta(rope: Any) -> Any:
    return {**rope, _BETA: None} if isinstance(rope, dict) else rope


def _grown(mixer: AttentionSpec, rope: Mapping[str, Any]) -> AttentionSpec:
    """Multiplies queries by 1 + beta * ln(1 + floor(position / original context))."""
    if mixer.rotary is None or not rope.get(_BETA):
        return mixer
    growth = Growth(positive(rope, _BETA), count(rope, "original_max_position_embeddings"))
    return replace(mixer, query_rotary=replace(mixer.rotary, growth=growth))


FAMILY = Family("ministral3", spec)
