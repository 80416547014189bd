"""LFM2 with experts."""

from typing import Any

from support.family_data import FamilyData, Row, either

MIXTURE: dict[str, Any] = dict(
    layer_types=["conv", "full_attention", "conv"],
    num_experts=7,
    num_experts_per_tok=3,
    moe_intermediate_size=40,
    num_dense_layers=1,
)

DATA = FamilyData(
    models="LFM2 8B A1B",
    row=Row(
        "as LFM2; experts, chosen by sigmoids",
        "7e-6",
        "`cpu`",
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
)
