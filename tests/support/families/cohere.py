"""Command R."""

from support.family_data import EITHER, FamilyData, Row

DATA = FamilyData(
    models="Command R, Aya 23",
    row=Row("parallel blocks, a LayerNorm, heads rotate in pairs of neighbours", "6e-6"),
    cases={
        "tied": dict(logit_scale=0.3),
        "biases": dict(attention_bias=True, tie_word_embeddings=False, logit_scale=1.5),
    },
    drawn={
        "attention_bias": EITHER,
        "logit_scale": [0.5, 1.5],
        "layer_norm_eps": [1e-5, 1e-3],
    },
    checked=["tied"],
)
