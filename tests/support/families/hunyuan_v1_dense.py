"""Hunyuan's dense models."""

from support.family_data import EITHER, HEAD_KEYS, FamilyData, GgufForm, Row
from support.rotary_fields import rope

DATA = FamilyData(
    models="Hunyuan 0.5B to 7B",
    row=Row("norms of heads behind the rotation", "8e-6"),
    cases={
        "plain": dict(head_dim=16, tie_word_embeddings=True),
        "alpha": dict(head_dim=8, attention_bias=True, **rope("dynamic", factor=1.0, alpha=50.0)),
    },
    drawn={"attention_bias": EITHER, "head_dim": [8]},
    gguf={"plain": GgufForm("hunyuan-dense", HEAD_KEYS)},
)
