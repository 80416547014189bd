"""Phi-3, Phi-3.5 and Phi-4-mini: Llama with fused weights, whose heads may rotate in part."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention, windowed
from exporter.models.families.mistral import kinds
from exporter.models.family import Family
from exporter.models.fields import refuse
from exporter.models.rotary_config import given_rope, rotary
from exporter.models.spec import AttentionSpec, DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "original_max_position_embeddings": 4096,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    for name in ("attention_bias", "mlp_bias", "lm_head_bias"):
        refuse(fields, name, False)
    for name in ("full_attn_mod", "interpolate_factor"):
        refuse(fields, name, 1)
    rope = given_rope(fields)
    if rope.get("rope_type", rope.get("type")) == "yarn":  # as early files call it
        fields["rope_scaling"] = {**rope, "rope_type": "longrope"}
    mixer = unrotated_attention(fields)
    mixer = replace(mixer, rotary=rotary(fields, mixer.head_dim))
    return decoder(fields, windowed(fields, LayerSpec(mixer, mlp(fields)), kinds(fields)))


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Queries, keys and values are rows of one tensor, gate and up of another."""
    block, _, part = name.rpartition(".weight")[0].rpartition(".")
    if not name.startswith("model.layers."):
        return Stored((name,))
    layer = spec.layers[int(name.split(".")[2])]
    if part in ("gate_proj", "up_proj"):
        size = layer.feed_forward.intermediate_size
        begin = 0 if part == "gate_proj" else size
        return Stored((f"{block}.gate_up_proj.weight",)).rows(begin, begin + size)
    if part in ("q_proj", "k_proj", "v_proj"):
        fused = Stored((f"{block}.qkv_proj.weight",)).rows(*_rows(layer.attention, part))
        rotary = layer.attention.rotary
        if part == "v_proj" or rotary is None:
            return fused
        return fused.half_split(rotary.head_dim, rotary.leading)
    return Stored((name,))


def _rows(mixer: AttentionSpec, part: str) -> tuple[int, int]:
    queries = mixer.num_attention_heads * mixer.head_dim
    keys = mixer.num_key_value_heads * mixer.head_dim
    begin = {"q_proj": 0, "k_proj": queries, "v_proj": queries + keys}[part]
    return begin, begin + (queries if part == "q_proj" else keys)


FAMILY = Family("phi3", spec, stored)
