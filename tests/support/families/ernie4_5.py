"""ERNIE 4.5."""

from support.family_data import EITHER, HEAD_KEYS, FamilyData, GgufForm

DATA = FamilyData(
    models="ERNIE 4.5",
    row="helium",
    cases={
        "plain": dict(head_dim=16),
        "biases": dict(head_dim=8, use_bias=True, tie_word_embeddings=False),
    },
    drawn={"use_bias": EITHER, "head_dim": [8]},
    gguf={"plain": GgufForm("ernie4_5", HEAD_KEYS)},
)
