"""Qwen3-VL, its text part."""

from support.family_data import EITHER, FamilyData, Row
from support.rotary_fields import rope

SECTIONS = {"mrope_section": [4, 2, 2], "mrope_interleaved": True}

DATA = FamilyData(
    models="Qwen3-VL",
    row=Row("as Qwen 3; pictures' rows are added behind the first layers, too", "6e-6"),
    cases={
        "plain": dict(head_dim=16),
        "sections": dict(head_dim=16, **rope("default", 5e6, **SECTIONS)),
        "tied-biases": dict(tie_word_embeddings=True, attention_bias=True, head_dim=8),
    },
    drawn={"attention_bias": EITHER, "head_dim": [8]},
)
