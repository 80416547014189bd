"""Shapes of published models with layers that are not plain attention, and their hub ids."""

from typing import Any

_QWEN35_08B: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": 1024,
    "intermediate_size": 3584,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000000.0,
    "partial_rotary_factor": 0.25,
    "tie_word_embeddings": True,
    "eos_token_id": 248044,
}
_GEMMA4_E2B: dict[str, Any] = {
    "model_type": "gemma4_text",
    "hidden_size": 1536,
    "intermediate_size": 6144,
    "num_hidden_layers": 35,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "global_head_dim": 512,
    "vocab_size": 262144,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
    "max_position_embeddings": 131072,
    "sliding_window": 512,
    "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    "num_kv_shared_layers": 20,
    "use_double_wide_mlp": True,
    "final_logit_softcapping": 30.0,
    "bos_token_id": 2,
    "eos_token_id": [1, 106],
}
HYBRIDS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("qwen3.5-0.8b", _QWEN35_08B, "Qwen/Qwen3.5-0.8B"),
    ("gemma4-e2b", _GEMMA4_E2B, "google/gemma-4-E2B-it"),
)
