"""LFM2."""

from typing import Any

from support.family_data import FamilyData, GgufForm, Row, either

LFM2: dict[str, Any] = dict(layer_types=["conv", "full_attention", "conv"], block_multiple_of=8)
KEYS = {"attention.layer_norm_rms_epsilon": "norm_eps", "shortconv.l_cache": "conv_L_cache"}
SIZES = {"attention.head_count_kv": [0, 2, 0], "feed_forward_length": 64}

DATA = FamilyData(
    models="LFM2, LFM2.5",
    row=Row(
        "gated short convolutions, norms of heads",
        "7e-6",
        "`cpu` `coreml`",
        "`xnnpack`",
        refused="all others: convolutions",
    ),
    cases={
        "hybrid": LFM2,
        "biases": {**LFM2, "conv_bias": True, "conv_L_cache": 5, "tie_word_embeddings": False},
        "indices": dict(
            full_attn_idxs=[1], block_auto_adjust_ff_dim=False, conv_L_cache=2, norm_eps=1e-3
        ),
    },
    drawn={
        **either("conv_bias", "block_auto_adjust_ff_dim"),
        "conv_L_cache": [2, 3, 4],
        "block_multiple_of": [8, 48],
        "block_ffn_dim_multiplier": [1.0, 1.3],
        "norm_eps": [1e-6, 1e-3],
        "full_attn_idxs": [[2], [0], [1, 3], [0, 1, 2, 3]],
    },
    gguf={"hybrid": GgufForm("lfm2", KEYS, SIZES), "biases": GgufForm("lfm2", KEYS, SIZES)},
)
