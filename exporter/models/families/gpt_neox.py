"""GPT-NeoX and Pythia: LayerNorms, biases, fused weights, parallel blocks, and heads of which a
quarter rotates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import decoder, mlp, unrotated_attention
from exporter.models.families.phi import rotated
from exporter.models.family import Family
from exporter.models.fields import count, flag, refuse
from exporter.models.rotary_config import rotary
from exporter.models.spec import DecoderSpec, LayerSpec
from exporter.models.tensor_layout import Stored

_DEFAULTS = {
    "layer_norm_eps": 1e-5,
    "rotary_emb_base": 10000.0,
    "rotary_pct": 0.25,
    "max_position_embeddings": 2048,
    "hidden_act": "gelu",
    "use_parallel_residual": True,
    "attention_bias": True,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_NAMES = {
    "model.": "gpt_neox.",
    "embed_tokens.": "embed_in.",
    "lm_head.": "embed_out.",
    "gpt_neox.norm.": "gpt_neox.final_layer_norm.",
    ".self_attn.o_proj.": ".attention.dense.",
    ".mlp.up_proj.": ".mlp.dense_h_to_4h.",
    ".mlp.down_proj.": ".mlp.dense_4h_to_h.",
}
_PARTS = ("q_proj", "k_proj", "v_proj")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    fields |= {
        "rms_norm_eps": fields["layer_norm_eps"],
        "rope_theta": fields["rotary_emb_base"],
        "partial_rotary_factor": fields["rotary_pct"],
        "num_key_value_heads": None,
        "head_dim": None,
    }
    bias = flag(fields, "attention_bias")
    mixer = unrotated_attention(fields, bias=bias, out_bias=bias)
    refuse(config, "head_dim", mixer.head_dim)  # by which transformers would rotate alone
    mixer = replace(mixer, rotary=rotary(fields, mixer.head_dim))
    parallel = flag(fields, "use_parallel_residual")
    layer = LayerSpec(mixer, mlp(fields, bias=True, gated=False), parallel=parallel)
    plain = decoder(fields, [layer] * count(fields, "num_hidden_layers"))
    return replace(plain, norm="layer_with_bias")


def stored(spec: DecoderSpec, name: str) -> Stored:
    """Queries, keys and values are rows of one tensor, head by head; of GGUF, one after another."""
    renamed = name
    for ours, theirs in _NAMES.items():
        renamed = renamed.replace(ours, theirs)
    block, is_attention, rest = renamed.partition(".self_attn.")
    if not is_attention:
        return Stored((renamed,)).or_else(Stored((name,)))  # the head's newer name; those of GGUF
    part, _, end = rest.partition(".")
    mixer, which = spec.attentions[0], _PARTS.index(part)
    head_dim, size = mixer.head_dim, mixer.num_attention_heads * mixer.head_dim
    whole = name.replace(f".{part}.", ".qkv_proj.")
    apart = Stored((whole,)).rows(which * size, (which + 1) * size)
    fused = Stored((f"{block}.attention.query_key_value.{end}",)).then(
        lambda rows: rows.unflatten(0, (-1, 3, head_dim))[:, which].flatten(0, 1)
    )
    return rotated(spec, name, fused).or_else(rotated(spec, name, apart))


FAMILY = Family("gpt_neox", spec, stored)
