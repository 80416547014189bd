"""Configs of every family with features on and off at random."""

import random
from typing import Any

from support.family_models import DENSE_GRANITE4, Case, by_kind, longrope, rope

LAYERS, HEAD_DIM = 4, 8
_ACTIVATIONS = ["silu", "gelu", "gelu_pytorch_tanh", "relu"]
_BIAS, _TIE, _WINDOW = [False, True], [False, True], [1, 5, 9, 33, 100]
_KINDS = ["sliding_attention", "full_attention"]
# What a config of each architecture may say beside what all may, and what it may be.
_OPTIONS: dict[str, dict[str, list[Any]]] = {
    "Llama": {"attention_bias": _BIAS, "mlp_bias": _BIAS, "head_dim": [8, 8, 12]},
    "Mistral": {"sliding_window": [None, *_WINDOW]},
    "Qwen2": {
        "use_sliding_window": _BIAS,
        "sliding_window": _WINDOW,
        "max_window_layers": [0, 1, 3, 4],
    },
    "Qwen3": {
        "attention_bias": _BIAS,
        "use_sliding_window": _BIAS,
        "sliding_window": _WINDOW,
        "max_window_layers": [0, 1, 3, 4],
        "head_dim": [8],
    },
    "Qwen3Moe": {
        "attention_bias": _BIAS,
        "use_sliding_window": _BIAS,
        "sliding_window": _WINDOW,
        "head_dim": [8],
        "num_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
        "moe_intermediate_size": [24, 40],
        "norm_topk_prob": _BIAS,
        "mlp_only_layers": [[], [0, 3]],
        "decoder_sparse_step": [1, 2],
    },
    "GptOss": {
        "attention_bias": _BIAS,
        "sliding_window": _WINDOW,
        "head_dim": [8],
        "num_local_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
        "swiglu_limit": [0.4, 7.0],
    },
    "SmolLM3": {
        "attention_bias": _BIAS,
        "mlp_bias": _BIAS,
        "use_sliding_window": _BIAS,
        "sliding_window": _WINDOW,
        "no_rope_layer_interval": [1, 2, 3],
    },
    "Phi3": {"sliding_window": [None, *_WINDOW], "head_dim": [8]},
    "Granite": {
        "attention_bias": _BIAS,
        "mlp_bias": _BIAS,
        "embedding_multiplier": [1.0, 3.0],
        "attention_multiplier": [0.1, 1.0],
        "residual_multiplier": [1.0, 0.3],
        "logits_scaling": [1.0, 0.25],
    },
    "GraniteMoeHybrid": {
        "attention_bias": _BIAS,
        "position_embedding_type": [None, "rope"],
        "shared_intermediate_size": [40, 72],
        "residual_multiplier": [1.0, 0.3],
    },
    "Olmo2": {"attention_bias": _BIAS},
    "Olmo3": {"attention_bias": _BIAS, "sliding_window": _WINDOW},
    "Gemma2": {
        "attention_bias": _BIAS,
        "sliding_window": _WINDOW,
        "query_pre_attn_scalar": [5, 64],
        "final_logit_softcapping": [None, 4.0],
        "attn_logit_softcapping": [None, 0.7],
        "head_dim": [8],
    },
    "Gemma3Text": {
        "attention_bias": _BIAS,
        "sliding_window": _WINDOW,
        "query_pre_attn_scalar": [5, 64],
        "final_logit_softcapping": [None, 4.0],
        "sliding_window_pattern": [2, 3, 6],
        "head_dim": [8],
    },
    "Gemma4Text": {
        "attention_bias": _BIAS,
        "sliding_window": _WINDOW,
        "final_logit_softcapping": [None, 4.0],
        "head_dim": [8],
        "global_head_dim": [8, 16, 20],
        "attention_k_eq_v": _BIAS,
        "num_global_key_value_heads": [None, 1, 2, 6],
        "layer_types": [_KINDS * 2],
        "num_kv_shared_layers": [0, 1, 2],
        "use_double_wide_mlp": _BIAS,
        "vocab_size_per_layer_input": [199, 230],
        "hidden_size_per_layer_input": [0, 12],
    },
    "Gemma": {"attention_bias": _BIAS, "head_dim": [8]},
    "Ministral": {"sliding_window": _WINDOW, "head_dim": [8]},
    "SeedOss": {
        "attention_bias": _BIAS,
        "attention_out_bias": _BIAS,
        "mlp_bias": _BIAS,
        "head_dim": [8],
    },
    "Cwm": {"sliding_window": _WINDOW, "mlp_bias": _BIAS, "head_dim": [8]},
    "InternLM3": {"head_dim": [8]},
    "IQuestCoder": {"attention_bias": _BIAS, "mlp_bias": _BIAS, "head_dim": [8]},
    "Exaone4": {"sliding_window": _WINDOW, "sliding_window_pattern": [1, 2, 3]},
    "Ministral3": {"sliding_window": [None, *_WINDOW], "head_dim": [8]},
    "Lfm2": {
        "conv_bias": _BIAS,
        "conv_L_cache": [2, 3, 4],
        "block_auto_adjust_ff_dim": _BIAS,
        "block_multiple_of": [8, 48],
        "block_ffn_dim_multiplier": [1.0, 1.3],
        "norm_eps": [1e-6, 1e-3],
        "full_attn_idxs": [[2], [0], [1, 3], [0, 1, 2, 3]],
    },
    "Qwen3_5Text": {
        "hidden_act": ["silu"],
        "attention_bias": _BIAS,
        "head_dim": [24, 32],  # of which a quarter rotates
        "layer_types": [
            None,
            ["linear_attention", "full_attention"] * 2,
        ],
        "linear_conv_kernel_dim": [2, 4],
        "linear_key_head_dim": [8, 20],
        "linear_value_head_dim": [4, 16],
        "linear_num_key_heads": [1, 2],
        "linear_num_value_heads": [2, 6],
    },
}
_WITH_KINDS = (
    "Qwen2",
    "Qwen3",
    "SmolLM3",
    "Olmo3",
    "Gemma2",
    "Gemma3Text",
    "Exaone4",
    "GptOss",
    "Cwm",
)
_TABLE_BY_KIND = ("Olmo3", "Gemma3Text")
ARCHITECTURES = tuple(_OPTIONS)


def random_case(architecture: str, seed: int) -> Case:
    """A config of that architecture, drawn."""
    draw = random.Random(f"{architecture} {seed}")
    fields: dict[str, Any] = {
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": draw.choice([1, 2, 3, 6]),
        "rms_norm_eps": draw.choice([1e-6, 1e-3]),
        "tie_word_embeddings": draw.choice(_TIE),
        "max_position_embeddings": draw.choice([24, 64]),
    }
    act = "hidden_activation" if architecture.startswith("Gemma") else "hidden_act"
    act = "hidden_act" if architecture == "Gemma" else act
    fields[act] = "silu" if architecture == "GptOss" else draw.choice(_ACTIVATIONS)
    if architecture == "GraniteMoeHybrid":
        fields |= {**DENSE_GRANITE4, "layer_types": ["full_attention"] * LAYERS}
    fields |= {name: draw.choice(values) for name, values in _OPTIONS[architecture].items()}
    if fields.get("hidden_size_per_layer_input") == 0:
        fields["num_kv_shared_layers"] = 0  # which transformers cannot run without those inputs
    if architecture in _WITH_KINDS and draw.random() < 0.5:
        fields["layer_types"] = [draw.choice(_KINDS) for _ in range(LAYERS)]
        if architecture.startswith("Qwen") and not fields["use_sliding_window"]:
            fields["layer_types"] = ["full_attention"] * LAYERS
    rotated = fields.get("head_dim", HEAD_DIM) // (4 if architecture == "Qwen3_5Text" else 1)
    fields |= _rotary(draw, architecture, rotated)
    return Case(architecture, f"random-{seed}", fields)


def _rotary(draw: random.Random, architecture: str, head_dim: int) -> dict[str, Any]:
    if architecture == "Gemma4Text":
        partial = {"partial_rotary_factor": draw.choice([0.25, 0.5, 1.0])}
        full = rope("proportional", 1e4, **partial, factor=draw.choice([1.0, 4.0]))
        return by_kind(full, rope("default", draw.choice([1e2, 1e4])))
    if architecture in _TABLE_BY_KIND:
        return by_kind(_table(draw, head_dim), _table(draw, head_dim))
    if architecture == "Phi3":
        partial = {"partial_rotary_factor": draw.choice([0.5, 1.0])}
        pairs = int(head_dim * partial["partial_rotary_factor"]) // 2
        original = {"original_max_position_embeddings": draw.choice([16, 39, 40, 48])}
        plain = rope("default", draw.choice([1e3, 1e4]), **partial)
        return {**original, **draw.choice([plain, longrope(pairs, **partial)])}
    table = _table(draw, head_dim)
    if architecture == "Ministral3":
        table["rope_parameters"]["llama_4_scaling_beta"] = draw.choice([0.0, 0.4])
        table["rope_parameters"].setdefault("original_max_position_embeddings", 16)
    return table


def _table(draw: random.Random, head_dim: int) -> dict[str, Any]:
    theta = draw.choice([1e2, 1e4, 1e6])
    original = {"original_max_position_embeddings": draw.choice([8, 16, 48])}
    factor = {"factor": draw.choice([1.0, 2.0, 6.5])}
    return draw.choice(
        [
            rope("default", theta),
            rope("linear", theta, **factor),
            rope("dynamic", theta, **factor),
            rope("llama3", theta, low_freq_factor=1.0, high_freq_factor=3.0, **factor, **original),
            rope("yarn", theta, **factor, **original),
            rope("yarn", theta, **factor, **original, beta_fast=8.0, beta_slow=2.0),
            rope("yarn", theta, **factor, **original, mscale=0.7, mscale_all_dim=1.2),
            rope("yarn", theta, **factor, **original, attention_factor=1.4),
            longrope(head_dim // 2, **factor, **original),
        ]
    )
