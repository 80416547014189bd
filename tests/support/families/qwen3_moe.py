"""Qwen 3 with experts."""

from typing import Any

from support.family_data import (
    EXPERT_KEYS,
    HEAD_KEYS,
    WINDOWS,
    FamilyData,
    GgufForm,
    Row,
    either,
)

MIXTURE: dict[str, Any] = dict(
    head_dim=16, num_experts=7, num_experts_per_tok=2, moe_intermediate_size=40, norm_topk_prob=True
)
KEYS = {**HEAD_KEYS, **EXPERT_KEYS, "expert_feed_forward_length": "moe_intermediate_size"}

DATA = FamilyData(
    models="Qwen 3 MoE",
    row=Row("experts", "6e-6", "`cpu` `coreml`", "`xnnpack`", "all others: experts"),
    cases={
        "normalized": MIXTURE,
        "some-dense": dict(
            **MIXTURE, mlp_only_layers=[1], num_hidden_layers=4, decoder_sparse_step=2
        ),
        "plain-softmax": {
            **MIXTURE,
            "norm_topk_prob": False,
            "num_experts_per_tok": 5,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 9,
        },
    },
    drawn={
        **either("attention_bias", "use_sliding_window", "norm_topk_prob"),
        "sliding_window": WINDOWS,
        "head_dim": [8],
        "num_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
        "moe_intermediate_size": [24, 40],
        "mlp_only_layers": [[], [0, 3]],
        "decoder_sparse_step": [1, 2],
    },
    swept="some-dense",
    gguf={"normalized": GgufForm("qwen3moe", KEYS)},
)
