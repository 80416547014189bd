"""Gemma."""

from support.family_data import EITHER, FamilyData, Row

DATA = FamilyData(
    models="Gemma",
    row=Row("GELU, scaled embedding", "5e-6", refused="`mps`: scaled embedding"),
    cases={
        "tied": dict(head_dim=16, hidden_act="gelu"),
        "biases": dict(head_dim=8, attention_bias=True, tie_word_embeddings=False),
    },
    drawn={"attention_bias": EITHER, "head_dim": [8]},
    norms_from_one=True,
)
