"""GLM-4: half of each head rotates, in pairs of neighbours; biases; gate and up are one tensor."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention
from exporter.models.family import Family
from exporter.models.fields import count, flag
from exporter.models.rotary_config import rotary
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import ROTATED, Stored

_DEFAULTS = {
    "rms_norm_eps": 1.5625e-7,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "attention_bias": True,
}
_PARTS = ("q_proj", "k_proj", "v_proj")
_ENDS = [151329, 151336, 151338]


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    if fields.get("eos_token_id") is None:
        fields["eos_token_id"] = [end for end in _ENDS if end < count(fields, "vocab_size")]
    mixer = unrotated_attention(fields, bias=flag(fields, "attention_bias"))
    mixer = replace(mixer, rotary=rotary(fields, mixer.head_dim))
    return decoder(fields, [LayerSpec(mixer, mlp(fields))] * count(fields, "num_hidden_layers"))


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Gate and up are rows of one tensor; of GGUF, queries, keys and values may be, too."""
    block, _, part = name.rpartition(".")[0].rpartition(".")
    if part in ("gate_proj", "up_proj"):
        size = spec.layers[0].feed_forward.intermediate_size
        begin = 0 if part == "gate_proj" else size
        return Stored((f"{block}.gate_up_proj.weight",)).rows(begin, begin + size)
    kept = in_halves(spec, name)
    if part not in _PARTS:
        return kept
    mixer = spec.attentions[0]
    heads = mixer.num_attention_heads, mixer.num_key_value_heads, mixer.num_key_value_heads
    sizes = [count * mixer.head_dim for count in heads]
    which = _PARTS.index(part)
    begin = sum(sizes[:which])
    whole = Stored((f"{block}.qkv_proj.{name.rpartition('.')[2]}",))
    fused = whole.rows(begin, begin + sizes[which])
    return kept.or_else(in_halves(spec, name, fused))


def in_halves(spec: DecoderSpec, name: str, stored: Stored | None = None) -> Stored:
    """Rows of queries, keys and their norms are stored in the order of pairs that rotate together.

    Args:
        stored: the rows; None: those of that name.
    """
    stored = Stored((name,)) if stored is None else stored
    rotary = next(iter(spec.rotary_tables), None)
    if rotary is None or name.split(".")[-2] not in ROTATED:
        return stored
    return stored.from_pairs(rotary.head_dim, rotary.leading)


FAMILY = Family("glm", spec, stored)
