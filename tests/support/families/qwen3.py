"""Qwen 3."""

from support.families.qwen2 import SLIDES
from support.family_data import EITHER, HEAD_KEYS, MIXED, WINDOWS, FamilyData, GgufForm
from support.rotary_fields import PROPORTIONAL

DATA = FamilyData(
    models="3",
    row="qwen2",
    cases={
        "plain": dict(head_dim=16),
        "proportional-rope": dict(head_dim=16, **PROPORTIONAL),
        "tied-biases": dict(tie_word_embeddings=True, attention_bias=True, head_dim=8),
        "listed-windows": dict(
            use_sliding_window=True, sliding_window=5, layer_types=MIXED, head_dim=8
        ),
    },
    drawn={
        "attention_bias": EITHER,
        ("use_sliding_window", "layer_types"): SLIDES,
        "sliding_window": WINDOWS,
        "max_window_layers": [0, 1, 3, 4],
        "head_dim": [8],
    },
    swept="listed-windows",
    gguf={"plain": GgufForm("qwen3", HEAD_KEYS)},
)
