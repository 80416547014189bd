"""Qwen3-Next: Qwen3.5's gated delta rule and attention, with the experts of Qwen2-MoE."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exporter.models.families import qwen2_moe, qwen3_5_text, qwen3_moe
from exporter.models.family import Family
from exporter.models.spec import DecoderSpec, DeltaSpec
from exporter.models.tensor_layout import Stored, concatenate

if TYPE_CHECKING:
    from torch import Tensor

_DEFAULTS = {
    **qwen3_5_text.DEFAULTS,
    "vocab_size": 151936,
    "num_key_value_heads": 2,
    "intermediate_size": 5632,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    dense = qwen3_5_text.spec(fields)
    pairs = zip(dense.layers, qwen3_moe.sparse_layers(fields), strict=True)
    layers = (qwen2_moe.sparse(fields, x) if is_sparse else x for x, is_sparse in pairs)
    return replace(dense, layers=tuple(layers))


def stored(spec: DecoderSpec, name: str) -> Stored:
    """What the delta rule reads is stored key head by key head: its query, its key, and of its
    heads of values these, then their gates; in another tensor b and a of these heads. GGUF has the
    gates apart."""
    block, is_input, rest = name.partition(".linear_attn.in_proj_")
    if not is_input:
        if ".mlp." in name or ".shared_expert." in name:
            return qwen2_moe.stored(spec, name)
        return qwen3_5_text.stored(spec, name)
    rule = next(layer.mixer for layer in spec.layers if isinstance(layer.mixer, DeltaSpec))
    heads = rule.num_value_heads // rule.num_key_heads
    part, _, end = rest.partition(".")
    if part in ("a", "b"):
        sizes, places = [heads, heads], [0 if part == "b" else 1]
        fused = f"{block}.linear_attn.in_proj_ba.{end}"
    else:
        values = heads * rule.value_head_dim
        sizes = [rule.key_head_dim, rule.key_head_dim, values, values]
        places = [3] if part == "z" else [0, 1, 2]
        fused = f"{block}.linear_attn.in_proj_qkvz.{end}"
    whole = Stored((fused,), lambda rows: _parts(rows, sizes, places))
    return whole.or_else(Stored((name,)))


def _parts(rows: "Tensor", sizes: list[int], places: list[int]) -> "Tensor":
    heads = rows.unflatten(0, (-1, sum(sizes))).split(sizes, dim=1)
    return concatenate([heads[part].flatten(0, 1) for part in places])


FAMILY = Family("qwen3_next", spec, stored)
