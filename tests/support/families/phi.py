"""Phi-1 to 2."""

from support.families.glm import drawn_part
from support.family_data import EITHER, FamilyData, GgufForm, Row
from support.rotary_fields import rope

DATA = FamilyData(
    models="Phi-1, 1.5, 2",
    row=Row("parallel blocks, a LayerNorm, biases, half of each head rotates", "2e-6"),
    cases={
        "plain": {},
        "more-heads": dict(
            num_key_value_heads=6,
            hidden_act="gelu",
            qk_layernorm=True,
            **rope("default", partial_rotary_factor=0.75),
        ),
    },
    drawn={"layer_norm_eps": [1e-5, 1e-3], "qk_layernorm": EITHER, "tie_word_embeddings": [False]},
    rotary=drawn_part,
    checked=["plain"],
    gguf={
        "plain": GgufForm(
            "phi2",
            {"attention.layer_norm_epsilon": "layer_norm_eps"},
            {"rope.dimension_count": 4},
        )
    },
)
