"""Helium."""

from support.family_data import FamilyData, Row, either

DATA = FamilyData(
    models="Helium",
    row=Row("heads rotate in pairs of neighbours", "9e-6"),
    cases={
        "plain": dict(head_dim=8),
        "biases": dict(head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    },
    drawn={**either("attention_bias", "mlp_bias"), "head_dim": [8]},
)
