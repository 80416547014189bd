"""Phi-1 to 2: parallel blocks that read one LayerNorm, biases, also of the head, and heads that
rotate in part."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.rotary_config import rotary
from exporter.models.spec import DecoderSpec, LayerSpec, Norms, QkNorm
from exporter.models.tensor_layout import ROTATED, Stored

_DEFAULTS = {
    "layer_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "max_position_embeddings": 2048,
    "hidden_act": "gelu_new",
}
_NORM = Norms("input_layernorm")
_NAMES = {
    "model.norm.": "model.final_layernorm.",
    ".o_proj.": ".dense.",
    ".up_proj.": ".fc1.",
    ".down_proj.": ".fc2.",
    ".q_norm.": ".q_layernorm.",
    ".k_norm.": ".k_layernorm.",
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    fields["rms_norm_eps"] = fields["layer_norm_eps"]
    qk_norm: QkNorm = "layer" if flag(fields, "qk_layernorm") else None
    mixer = unrotated_attention(fields, bias=True, out_bias=True, qk_norm=qk_norm)
    mixer = replace(mixer, rotary=rotary(fields, mixer.head_dim))
    part = mlp(fields, bias=True, gated=False)
    layer = LayerSpec(mixer, part, _NORM, _NORM, parallel=True)
    plain = decoder(fields, [layer] * count(fields, "num_hidden_layers"))
    return replace(plain, norm="layer_with_bias", head_bias=True)


def stored(spec: DecoderSpec, name: str) -> Stored:
    renamed = name
    for ours, theirs in _NAMES.items():
        renamed = renamed.replace(ours, theirs)
    return rotated(spec, name, Stored((renamed,)))


def rotated(spec: DecoderSpec, name: str, stored: Stored) -> Stored:
    """Returns rows of queries and keys, of heads whose first numbers rotate, in our order, and
    those of their norms."""
    rotary = spec.attentions[0].rotary
    if rotary is None or name.split(".")[-2] not in ROTATED:
        return stored
    return stored.half_split(rotary.head_dim, rotary.leading)


FAMILY = Family("phi", spec, stored)
