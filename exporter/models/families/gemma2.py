"""Gemma 2: four norms a layer, a scaled embedding, a window in every other layer, soft caps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from exporter.models.config import attention, decoder, mlp, windowed
from exporter.models.family import Family
from exporter.models.fields import flag, layer_kinds, positive, refuse
from exporter.models.spec import AttentionSpec, DecoderSpec, LayerSpec, Norms
from exporter.models.tensor_layout import Stored

DEFAULTS = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
_CAPS = {"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0}
_AROUND_ATTENTION = Norms("input_layernorm", "post_attention_layernorm")
_AROUND_MLP = Norms("pre_feedforward_layernorm", "post_feedforward_layernorm")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**DEFAULTS, **_CAPS, **config}
    bias = flag(fields, "attention_bias")
    kinds = layer_kinds(fields, lambda index: index % 2 == 0)
    mixer = attention(fields, bias=bias, out_bias=bias)
    return scaled(fields, windowed(fields, layer(fields, mixer), kinds))


def layer(fields: Mapping[str, Any], mixer: AttentionSpec) -> LayerSpec:
    """Returns a layer of Gemma with that attention."""
    refuse(fields, "use_bidirectional_attention", False)
    mixer = replace(
        mixer,
        scale=positive(fields, "query_pre_attn_scalar") ** -0.5,
        soft_cap=_cap(fields, "attn_logit_softcapping"),
    )
    part = mlp(fields, act="hidden_activation")
    return LayerSpec(mixer, part, _AROUND_ATTENTION, _AROUND_MLP)


def scaled(fields: Mapping[str, Any], layers: Sequence[LayerSpec]) -> DecoderSpec:
    """Returns a decoder of Gemma: the embedding is scaled, logits may be capped."""
    plain = decoder(fields, layers)
    return replace(
        plain,
        embedding_scale=plain.hidden_size**0.5,
        logit_soft_cap=_cap(fields, "final_logit_softcapping"),
    )


def _cap(fields: Mapping[str, Any], name: str) -> float | None:
    return None if fields.get(name) is None else positive(fields, name)


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Norms are stored as their distance from 1."""
    kept = Stored((name,))
    return kept.plus_one() if name.endswith("norm.weight") else kept


FAMILY = Family("gemma2", spec, stored)
