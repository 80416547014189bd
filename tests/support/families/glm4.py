"""GLM-4 of 2025."""

from support.families.glm import drawn_part
from support.family_data import EITHER, HEAD_KEYS, FamilyData, GgufForm, Row

DATA = FamilyData(
    models="GLM-4-0414, GLM-Z1",
    row=Row("as GLM-4; norms after the blocks, too", "5e-6"),
    cases={
        "plain": dict(head_dim=16),
        "no-bias": dict(head_dim=8, attention_bias=False, tie_word_embeddings=True),
    },
    drawn={"attention_bias": EITHER, "head_dim": [8, 16]},
    rotary=drawn_part,
    gguf={"plain": GgufForm("glm4", HEAD_KEYS, {"rope.dimension_count": 8})},
)
