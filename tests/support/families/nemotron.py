"""Nemotron."""

from support.families.glm import drawn_part
from support.family_data import FamilyData, Row, either

DATA = FamilyData(
    models="Nemotron 4, Minitron",
    row=Row("LayerNorms, squared ReLU without a gate, half of each head rotates", "3e-6"),
    cases={
        "plain": {},
        "biases": dict(attention_bias=True, mlp_bias=True, head_dim=12, tie_word_embeddings=True),
    },
    drawn={
        **either("attention_bias", "mlp_bias"),
        "head_dim": [8],
        "norm_eps": [1e-5, 1e-3],
        "hidden_act": ["relu2", "gelu", "silu"],
    },
    rotary=drawn_part,
    norms_from_one=True,
)
