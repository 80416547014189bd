"""Command R."""

from support.family_data import FamilyData, GgufForm, Row, either

KEYS = {"attention.layer_norm_epsilon": "layer_norm_eps", "logit_scale": "logit_scale"}

DATA = FamilyData(
    models="Command R, R+, Aya 23",
    row=Row("parallel blocks, a LayerNorm, heads rotate in pairs of neighbours", "6e-6"),
    cases={
        "tied": dict(logit_scale=0.3),
        "biases": dict(attention_bias=True, tie_word_embeddings=False, logit_scale=1.5),
        "normed": dict(use_qk_norm=True, logit_scale=1.5),
    },
    drawn={
        **either("attention_bias", "use_qk_norm"),
        "logit_scale": [0.5, 1.5],
        "layer_norm_eps": [1e-5, 1e-3],
    },
    checked=["tied"],
    gguf={label: GgufForm("command-r", KEYS) for label in ("tied", "normed")},
)
