"""Phi-3 and Phi-4-mini."""

import math
import random
from typing import Any

from support.family_data import WINDOWS, FamilyData, GgufForm, Row
from support.rotary_fields import longrope, rope

LONG = longrope(4)["rope_parameters"]


def drawn_part(draw: random.Random, head_dim: int) -> dict[str, Any]:
    """Tables for a part of the head, with factors or without."""
    partial = {"partial_rotary_factor": draw.choice([0.5, 1.0])}
    pairs = int(head_dim * partial["partial_rotary_factor"]) // 2
    original = {"original_max_position_embeddings": draw.choice([16, 39, 40, 48])}
    plain = rope("default", draw.choice([1e3, 1e4]), **partial)
    return {**original, **draw.choice([plain, longrope(pairs, **partial)])}


DATA = FamilyData(
    models="Phi-3, 3.5, Phi-4-mini",
    row=Row(
        "fused weights, partial rotation, longrope",
        "8e-6",
        "`cpu` `coreml` `mlx` `mps`",
        "`xnnpack`",
    ),
    cases={
        "plain": {},
        "window": dict(sliding_window=9, tie_word_embeddings=True),
        "partial": dict(head_dim=8, **rope("default", partial_rotary_factor=0.75)),
        "long-factors": dict(original_max_position_embeddings=24, **longrope(4)),
        "short-factors": dict(original_max_position_embeddings=48, **longrope(4)),
        "phi-4-mini": dict(
            original_max_position_embeddings=16,
            num_attention_heads=3,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            **longrope(6, partial_rotary_factor=0.75),
        ),
    },
    drawn={"sliding_window": [None, *WINDOWS], "head_dim": [8]},
    rotary=drawn_part,
    swept="window",
    checked=["phi-4-mini"],
    gguf={
        "plain": GgufForm("phi3", more={"attention.sliding_window": 0}),
        "partial": GgufForm("phi3", more={"rope.dimension_count": 6}),
        "long-factors": GgufForm(
            "phi3",
            more={
                "rope.scaling.original_context_length": 24,
                "rope.scaling.attn_factor": math.sqrt(1 + math.log(64 / 24) / math.log(24)),
            },
            factors={
                "rope_factors_long.weight": LONG["long_factor"],
                "rope_factors_short.weight": LONG["short_factor"],
            },
        ),
    },
)
