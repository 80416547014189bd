"""LFM3: LFM2 with norms after the blocks, windows in some layers, and attention with a gate for
each head."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, unrotated_attention
from exporter.models.families import lfm2
from exporter.models.family import Family
from exporter.models.fields import FULL, SLIDING, count, flag, positive
from exporter.models.rotary_config import rotary, whole_heads
from exporter.models.spec import ConvolutionSpec, DecoderSpec, LayerSpec, MlpSpec, Norms
from exporter.models.tensor_layout import Stored

_CONVOLUTION = "conv"
_DEFAULTS = {
    "vocab_size": 128000,
    "norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 128000,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "conv_L_cache": 7,
    "sliding_window": 256,
    "use_sandwich_norm": True,
    "use_attention_gate": True,
    "tie_word_embeddings": True,
    "bos_token_id": 124894,
    "eos_token_id": 124900,
}
_ROPE = {
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    FULL: {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5},
}
_NORMS = Norms("operator_norm"), Norms("ffn_norm")
_AROUND = Norms("operator_norm", "post_operator_norm"), Norms("ffn_norm", "post_ffn_norm")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    if fields.get("rope_parameters") is None:
        fields["rope_parameters"] = _ROPE
    norms = _AROUND if flag(fields, "use_sandwich_norm") else _NORMS
    feed_forward = MlpSpec(count(fields, "intermediate_size"))
    convolution = ConvolutionSpec(count(fields, "conv_L_cache", least=2), flag(fields, "conv_bias"))
    bias = flag(fields, "attention_bias")
    mixer = unrotated_attention(fields, bias, bias, "heads")
    mixer = replace(mixer, gate="heads" if flag(fields, "use_attention_gate") else None)
    kinds = _kinds(fields)
    layers = {_CONVOLUTION: LayerSpec(convolution, feed_forward, *norms)}
    for kind in {FULL, SLIDING} & set(kinds):
        table = whole_heads(rotary(fields, mixer.head_dim, kind))
        window = count(fields, "sliding_window") if kind == SLIDING else None
        own = replace(mixer, rotary=table, window=window)
        layers[kind] = LayerSpec(own, feed_forward, *norms)
    eps = "norm_eps" if fields.get("rms_norm_eps") is None else "rms_norm_eps"  # which goes first
    fields |= {"rms_norm_eps": positive(fields, eps), "layer_types": None}
    return decoder(fields, [layers[kind] for kind in kinds])


def _kinds(fields: Mapping[str, Any]) -> list[str]:
    return lfm2.listed_kinds(fields, (FULL, SLIDING, _CONVOLUTION)) or [
        FULL if index % 4 == 2 else SLIDING if index % 4 == 0 and index else _CONVOLUTION
        for index in range(count(fields, "num_hidden_layers"))
    ]


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Attention has the names that others give it; a gate has another one in memory."""
    if ".self_attn." not in name:
        return lfm2.stored(spec, name)
    return Stored((name,)).or_else(Stored((name.replace(".gate_proj.", ".g_proj."),)))


FAMILY = Family("lfm3", spec, stored)
