"""Qwen 1.5 and 2 with experts."""

from typing import Any

from support.families.qwen2 import SLIDES
from support.family_data import WINDOWS, FamilyData, GgufForm, Row, either

MIXTURE: dict[str, Any] = dict(
    num_experts=7,
    num_experts_per_tok=3,
    moe_intermediate_size=40,
    shared_expert_intermediate_size=56,
)
KEYS = {
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}

DATA = FamilyData(
    models="Qwen 1.5 and 2 MoE",
    row=Row(
        "experts, one of which all tokens share",
        "5e-6",
        "`cpu` `coreml`",
        "`xnnpack`",
        "all others: experts",
    ),
    cases={
        "shared": MIXTURE,
        "some-dense": dict(
            **MIXTURE,
            mlp_only_layers=[1],
            norm_topk_prob=True,
            qkv_bias=False,
            use_sliding_window=True,
            sliding_window=9,
        ),
    },
    drawn={
        **either("qkv_bias", "norm_topk_prob"),
        ("use_sliding_window", "layer_types"): SLIDES,
        "sliding_window": WINDOWS,
        "num_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
        "moe_intermediate_size": [24, 40],
        "shared_expert_intermediate_size": [24, 56],
        "mlp_only_layers": [[], [0, 3]],
        "decoder_sparse_step": [1, 2],
    },
    swept="some-dense",
    checked=["shared"],
    gguf={"shared": GgufForm("qwen2moe", KEYS)},
)
