"""Gemma 3, its text part: Gemma 2 with norms of queries and keys instead of soft caps, a window in
five of six layers, and two rotary tables."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import unrotated_attention, windowed
from exporter.models.families import gemma2
from exporter.models.family import Family
from exporter.models.fields import count, flag, layer_kinds, refuse
from exporter.models.rotary_config import rotary_by_kind
from exporter.models.spec import DecoderSpec

DEFAULTS = {
    **gemma2.DEFAULTS,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "sliding_window_pattern": 6,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**DEFAULTS, **config}
    refuse(fields, "attn_logit_softcapping")
    bias = flag(fields, "attention_bias")
    pattern = count(fields, "sliding_window_pattern", 6)
    kinds = layer_kinds(fields, lambda index: (index + 1) % pattern != 0)
    mixer = unrotated_attention(fields, bias=bias, out_bias=bias, qk_norm="heads")
    tables = rotary_by_kind(fields, mixer.head_dim, fields["rope_local_base_freq"])
    layers = windowed(fields, gemma2.layer(fields, mixer), kinds, tables)
    return gemma2.scaled(fields, layers)


FAMILY = Family("gemma3_text", spec, gemma2.stored)
