"""Qwen 3.5."""

from typing import Any

from support.family_data import EITHER, HEAD_KEYS, FamilyData, GgufForm, Row
from support.rotary_fields import drawn_rope, rope

QWEN3_5: dict[str, Any] = dict(
    head_dim=16,
    linear_key_head_dim=8,
    linear_value_head_dim=12,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
)
KEYS = {
    **HEAD_KEYS,
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
}
SIZES = {
    "ssm.inner_size": QWEN3_5["linear_num_value_heads"] * QWEN3_5["linear_value_head_dim"],
    "rope.dimension_count": QWEN3_5["head_dim"] // 4,
}

DATA = FamilyData(
    models="Qwen 3.5",
    row=Row(
        "gated delta rule in 3 of 4 layers; attention with gated outputs, a quarter of the head "
        "rotates",
        "4e-5",
        "`cpu`",
        refused="all others: the delta rule",
    ),
    cases={
        "interval": dict(**QWEN3_5, num_hidden_layers=4),
        "kinds": dict(
            **QWEN3_5, layer_types=["linear_attention", "full_attention", "linear_attention"]
        ),
        "listed": dict(
            **QWEN3_5,
            layer_types=["full_attention", "linear_attention", "linear_attention"],
            linear_conv_kernel_dim=3,
            attention_bias=True,
            tie_word_embeddings=True,
            **rope(
                "default",
                1e6,
                partial_rotary_factor=0.5,
                mrope_section=[2, 1, 1],
                mrope_interleaved=True,
            ),
        ),
    },
    drawn={
        "hidden_act": ["silu"],
        "attention_bias": EITHER,
        "head_dim": [24, 32],
        "layer_types": [None, ["linear_attention", "full_attention"] * 2],
        "linear_conv_kernel_dim": [2, 4],
        "linear_key_head_dim": [8, 20],
        "linear_value_head_dim": [4, 16],
        "linear_num_key_heads": [1, 2],
        "linear_num_value_heads": [2, 6],
    },
    rotary=lambda draw, head_dim: drawn_rope(draw, head_dim // 4),
    gguf={
        "interval": GgufForm("qwen35", KEYS, {**SIZES, "full_attention_interval": 4}),
        "kinds": GgufForm(
            "qwen35", KEYS, {**SIZES, "attention.recurrent_layers": [True, False, True]}
        ),
    },
    norms_from_one=True,
)
