"""LFM2 with experts."""

from typing import Any

from support.families import lfm2
from support.family_data import FamilyData, GgufForm, Row, either

MIXTURE: dict[str, Any] = dict(
    layer_types=["conv", "full_attention", "conv"],
    num_experts=7,
    num_experts_per_tok=3,
    moe_intermediate_size=40,
    num_dense_layers=1,
)

KEYS = {
    **lfm2.KEYS,
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "leading_dense_block_count": "num_dense_layers",
}

DATA = FamilyData(
    models="LFM2 8B A1B",
    row=Row(
        "as LFM2; experts, chosen by sigmoids",
        "7e-6",
        "`cpu` `coreml`",
        "`xnnpack`",
        refused="all others: experts, convolutions",
    ),
    cases={
        "biased": MIXTURE,
        "unbiased": dict(
            **MIXTURE, use_expert_bias=False, norm_topk_prob=False, routed_scaling_factor=2.5
        ),
    },
    drawn={
        **either("conv_bias", "use_expert_bias", "norm_topk_prob"),
        "layer_types": [["conv", "full_attention"] * 2, ["full_attention"] * 4],
        "num_dense_layers": [0, 1, 4],
        "num_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
        "moe_intermediate_size": [24, 40],
        "routed_scaling_factor": [1.0, 0.4],
        "norm_eps": [1e-6, 1e-3],
    },
    checked=["biased"],
    gguf={"biased": GgufForm("lfm2moe", KEYS, {"attention.head_count_kv": [0, 2, 0]})},
)
