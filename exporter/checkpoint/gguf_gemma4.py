"""Gemma 4 in GGUF files: numbers that differ by layer are lists, and the share of a head that
rotates is told by rotary factors, which are endless for the rest."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from exporter.errors import ExportError

FIELDS = {
    "head_dim": "attention.key_length_swa",
    "global_head_dim": "attention.key_length",
    "num_kv_shared_layers": "attention.shared_kv_layers",
    "hidden_size_per_layer_input": "embedding_length_per_layer_input",
    "final_logit_softcapping": "final_logit_softcapping",
}
NAMES = {
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
    "layer_output_scale.weight": "layer_scalar",
}
_TABLE = "per_layer_token_embd.weight"
_ROPE_FACTORS = "rope_freqs.weight"
_ENDLESS = 1e20  # and more: a pair that does not rotate


def computed(
    stored: Callable[[str], Any],
    so_far: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    rope_factors: Mapping[str, Tensor],
) -> Mapping[str, Any]:
    """Returns config.json's fields of what differs by layer, and of the rotation."""
    turned = stored("rope.dimension_count_swa")
    if turned not in (None, so_far.get("head_dim")):
        raise ExportError(
            f"gemma4.rope.dimension_count_swa {turned!r} is not supported; supported is "
            f"{so_far.get('head_dim')!r}, complete heads."
        )
    fields: dict[str, Any] = {
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": so_far.get("rope_theta", 10000.0),
                "partial_rotary_factor": _share(rope_factors.get(_ROPE_FACTORS)),
            },
            "sliding_attention": {
                "rope_type": "default",
                "rope_theta": stored("rope.freq_base_swa") or 10000.0,
            },
        },
    }
    if len(shapes.get(_TABLE, ())) == 2:
        fields["vocab_size_per_layer_input"] = shapes[_TABLE][0]
    slides, layers = stored("attention.sliding_window_pattern"), so_far.get("num_hidden_layers")
    shared = so_far.get("num_kv_shared_layers", 0)
    if not isinstance(layers, int) or not isinstance(slides, list) or len(slides) != layers:
        return fields  # the family says what is wrong
    if not isinstance(shared, int) or not 0 <= shared <= layers:
        return fields
    fields |= _widths(so_far.get("intermediate_size"), layers - shared, shared)
    full = [index for index, slide in enumerate(slides) if not slide]
    heads = so_far.get("num_key_value_heads")
    if isinstance(heads, list) and len(heads) == layers and len(full) < layers:
        fields["num_key_value_heads"] = next(
            count for count, slide in zip(heads, slides, strict=True) if slide
        )
        fields["num_global_key_value_heads"] = heads[full[0]] if full else None
    fields["attention_k_eq_v"] = any(
        f"blk.{index}.attn_k.weight" in shapes and f"blk.{index}.attn_v.weight" not in shapes
        for index in full
    )
    return fields


def _widths(sizes: object, own: int, shared: int) -> dict[str, Any]:
    """Layers without keys and values of their own may have feed-forward parts twice as wide."""
    if not isinstance(sizes, list) or not sizes or not isinstance(sizes[0], int):
        return {}
    if sizes != [sizes[0]] * own + [2 * sizes[0]] * shared:
        raise ExportError(
            f"gemma4.feed_forward_length is {sizes!r}; supported is one number for the first {own} "
            f"layers and its double for the last {shared}."
        )
    return {"intermediate_size": sizes[0], "use_double_wide_mlp": True}


def _share(factors: Tensor | None) -> float:
    """Returns the share of a head that rotates."""
    if factors is None:
        return 1.0
    rotates = factors == 1
    count, pairs = int(rotates.sum()), factors.numel()
    if (
        not 0 < count <= pairs
        or not rotates[:count].all()
        or not (factors[count:] > _ENDLESS).all()
    ):
        raise ExportError(
            f"{_ROPE_FACTORS} are not 1 for the first pairs and above {_ENDLESS:g} for the others; "
            "other factors are not computed."
        )
    return 1.0 if count == pairs else (count + 0.25) / pairs  # rounded down to whole pairs
