"""GLM-4."""

import random
from typing import Any

from support.family_data import EITHER, HEAD_KEYS, FamilyData, GgufForm, Row
from support.rotary_fields import drawn_rope, rope


def drawn_part(draw: random.Random, head_dim: int) -> dict[str, Any]:
    """Tables for a half of the head, or for all of it."""
    share = draw.choice([0.5, 1.0])
    table = drawn_rope(draw, int(head_dim * share))
    table["rope_parameters"]["partial_rotary_factor"] = share
    return table


DATA = FamilyData(
    models="GLM-4",
    row=Row("half of each head rotates, in pairs of neighbours; biases", "8e-6"),
    cases={
        "plain": dict(head_dim=16),
        "fused": dict(head_dim=8),
        "no-bias": dict(
            head_dim=8, attention_bias=False, **rope("default", partial_rotary_factor=0.75)
        ),
    },
    drawn={"attention_bias": EITHER, "head_dim": [8, 16]},
    rotary=drawn_part,
    gguf={
        "plain": GgufForm("chatglm", HEAD_KEYS, {"rope.dimension_count": 8}),
        "no-bias": GgufForm("chatglm", more={"rope.dimension_count": 6}),
        "fused": GgufForm("chatglm", more={"rope.dimension_count": 4}, fused=True),
    },
)
