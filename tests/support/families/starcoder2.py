"""StarCoder2."""

from support.family_data import EITHER, WINDOWS, FamilyData, GgufForm, Row

KEYS = {"attention.layer_norm_epsilon": "norm_epsilon"}

DATA = FamilyData(
    models="StarCoder2",
    row=Row("LayerNorms, biases, GELU without a gate, perhaps a window", "2e-6"),
    cases={
        "plain": {},
        "window": dict(sliding_window=9, use_bias=False, tie_word_embeddings=False),
    },
    drawn={
        "use_bias": EITHER,
        "sliding_window": [None, *WINDOWS],
        "norm_epsilon": [1e-5, 1e-3],
    },
    swept="window",
    checked=["plain"],
    gguf={"plain": GgufForm("starcoder2", KEYS)},
)
