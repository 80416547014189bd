"""OLMoE: experts, and norms of all heads at once."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import attention, decoder, experts, mlp
from exporter.models.families import qwen3_moe
from exporter.models.family import Family
from exporter.models.fields import count, flag, refuse
from exporter.models.spec import DecoderSpec, LayerSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "num_experts": 64,
    "num_experts_per_tok": 8,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    refuse(fields, "clip_qkv")
    bias = flag(fields, "attention_bias")
    mixer = attention(fields, bias=bias, out_bias=bias, qk_norm="rows")
    mixture = experts(fields, mlp(fields), flag(fields, "norm_topk_prob"))
    return decoder(fields, [LayerSpec(mixer, mixture)] * count(fields, "num_hidden_layers"))


FAMILY = Family("olmoe", spec, qwen3_moe.stored)
