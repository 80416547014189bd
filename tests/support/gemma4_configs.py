"""What random models of Gemma 4 add to a shape."""

from typing import Any

_FULL, _SLIDING = "full_attention", "sliding_attention"
GEMMA4: dict[str, Any] = dict(
    head_dim=8,
    global_head_dim=16,
    sliding_window=9,
    num_hidden_layers=6,
    layer_types=[_SLIDING, _FULL] * 3,
    num_kv_shared_layers=3,
    use_double_wide_mlp=True,
    vocab_size_per_layer_input=199,
    hidden_size_per_layer_input=12,
    final_logit_softcapping=30.0,
)
_ROPE = {
    _FULL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.75},
    _SLIDING: {"rope_type": "default", "rope_theta": 1e3},
}
GEMMA4_CASES: dict[str, dict[str, Any]] = {
    "shared": GEMMA4,
    "nothing-shared": {
        **GEMMA4,
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0,
        "final_logit_softcapping": None,
        "tie_word_embeddings": False,
    },
    "keys-are-values": {
        **GEMMA4,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 3,
        "attention_bias": True,
        "use_double_wide_mlp": False,
        "rope_parameters": _ROPE,
    },
    "listed-sizes": {
        **GEMMA4,
        "layer_types": None,
        "num_hidden_layers": 7,
        "num_kv_shared_layers": 1,
        "per_layer_config": {index: {"head_dim": 20, "num_key_value_heads": 1} for index in (5, 6)},
    },
}
