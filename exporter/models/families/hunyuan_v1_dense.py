"""Hunyuan's dense models: Llama with norms of heads behind the rotation."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, mlp
from exporter.models.family import Family
from exporter.models.fields import count, flag, positive
from exporter.models.rotary_config import given_rope
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "attention_bias")
    mixer = attention(_stretched(fields), bias=bias, out_bias=bias, qk_norm="rotated_heads")
    layers = [LayerSpec(mixer, mlp(fields))] * count(fields, "num_hidden_layers")
    return decoder(fields, layers)


def _stretched(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns fields whose base is the one that `alpha` of the type dynamic makes, at any
    length."""
    rope = given_rope(fields)
    if rope.get("rope_type", rope.get("type")) != "dynamic" or not rope.get("alpha"):
        return fields
    theta = positive(fields if rope.get("rope_theta") is None else rope, "rope_theta")
    head_dim = count(
        fields, "head_dim", count(fields, "hidden_size") // count(fields, "num_attention_heads")
    )
    theta *= positive(rope, "alpha") ** (head_dim / (head_dim - 2))
    table = {"rope_type": "default", "rope_theta": theta}
    return {**fields, "rope_scaling": None, "rope_parameters": table}


def stored(spec: DecoderSpec, name: str) -> Stored:
    renamed = name.replace(".q_norm.", ".query_layernorm.").replace(".k_norm.", ".key_layernorm.")
    return Stored((renamed,)).or_else(Stored((name,)))


FAMILY = Family("hunyuan_v1_dense", spec, stored)
