"""Ministral 3."""

import random
from typing import Any

from support.family_data import HEAD_KEYS, WINDOWS, FamilyData, GgufForm, Row, yarn_keys
from support.rotary_fields import drawn_rope, rope

ORIGINAL = 8


def drawn_growth(draw: random.Random, head_dim: int) -> dict[str, Any]:
    """Queries grow, or not."""
    table = drawn_rope(draw, head_dim)
    table["rope_parameters"]["llama_4_scaling_beta"] = draw.choice([0.0, 0.4])
    table["rope_parameters"].setdefault("original_max_position_embeddings", 16)
    return table


DATA = FamilyData(
    models="Ministral 3",
    row=Row(
        "YaRN, queries that grow past 16384 tokens",
        "6e-6",
        "`cpu` `coreml` `mlx`",
        "`xnnpack`",
        "`mps`: past 16384",
    ),
    cases={
        "grown": dict(
            head_dim=16,
            tie_word_embeddings=True,
            **rope(
                "yarn",
                factor=4.0,
                original_max_position_embeddings=ORIGINAL,
                beta_fast=32.0,
                beta_slow=1.0,
                mscale=1.0,
                mscale_all_dim=1.0,
                llama_4_scaling_beta=0.3,
            ),
        ),
        "window": dict(head_dim=8, sliding_window=10),
        "sharpened": dict(
            num_hidden_layers=4,
            num_key_value_heads=1,
            rms_norm_eps=1e-3,
            tie_word_embeddings=True,
            hidden_act="gelu_pytorch_tanh",
            sliding_window=9,
            head_dim=8,
            **rope(
                "linear",
                100.0,
                factor=6.5,
                original_max_position_embeddings=16,
                llama_4_scaling_beta=0.0,
            ),
            max_position_embeddings=24,
        ),
    },
    drawn={"sliding_window": [None, *WINDOWS], "head_dim": [8]},
    rotary=drawn_growth,
    checked=["grown"],
    gguf={
        "grown": GgufForm(
            "mistral3",
            HEAD_KEYS,
            {
                **yarn_keys(ORIGINAL),
                "rope.scaling.yarn_beta_fast": 32.0,
                "rope.scaling.yarn_beta_slow": 1.0,
                "rope.scaling.yarn_log_multiplier": 1.0,
                "attention.temperature_scale": 0.3,
            },
            pairs_rotate=True,
        )
    },
)
