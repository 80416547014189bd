"""Arcee's AFM."""

from support.family_data import FamilyData, GgufForm, Row, either

DATA = FamilyData(
    models="Arcee AFM",
    row=Row("squared ReLU without a gate", "4e-6"),
    cases={
        "plain": {},
        "biases": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=12),
    },
    drawn={**either("attention_bias", "mlp_bias"), "head_dim": [8]},
    swept="biases",
    gguf={"plain": GgufForm("arcee", pairs_rotate=True)},
)
