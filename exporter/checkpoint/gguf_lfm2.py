"""LFM2 in GGUF files: layers without key/value heads are short convolutions."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from exporter.errors import ExportError

FIELDS = {"norm_eps": "attention.layer_norm_rms_epsilon", "conv_L_cache": "shortconv.l_cache"}
NAMES = {
    "token_embd_norm": "model.embedding_norm",
    "attn_norm": "operator_norm",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "attn_output": "self_attn.out_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.conv": "conv.conv",
    "shortconv.out_proj": "conv.out_proj",
}
_WINDOW = "attention.sliding_window"


def computed(
    stored: Callable[[str], Any],
    so_far: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    rope_factors: Mapping[str, Tensor],
) -> Mapping[str, Any]:
    """Returns config.json's fields of the layers; the feed-forward part's size is the final one."""
    if stored(_WINDOW):
        raise ExportError(f"lfm2.{_WINDOW} {stored(_WINDOW)!r} is not supported; supported is 0.")
    fields: dict[str, Any] = {
        "block_auto_adjust_ff_dim": False,
        "conv_bias": any(name.endswith(".shortconv.in_proj.bias") for name in shapes),
    }
    heads = so_far.get("num_key_value_heads")
    if isinstance(heads, list):
        fields["layer_types"] = ["full_attention" if count else "conv" for count in heads]
        different = {count for count in heads if count}
        fields["num_key_value_heads"] = different.pop() if len(different) == 1 else heads
    return fields
