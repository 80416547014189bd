"""Qwen 2 and 2.5."""

from support.family_data import KINDS, WINDOWS, FamilyData, GgufForm, Row
from support.rotary_fields import rope

NO_WINDOWS = (False, ["full_attention"] * 4)
SLIDES = [NO_WINDOWS, (False, None), (True, None), *((True, kinds) for kinds in KINDS)]

DATA = FamilyData(
    models="Qwen 2 and 2.5",
    row=Row("biases; norms of heads", "8e-6", "`cpu` `coreml` `mlx` `mps`", "`xnnpack`"),
    cases={
        "plain": {},
        "tied": dict(tie_word_embeddings=True, sliding_window=4),
        "window": dict(use_sliding_window=True, sliding_window=7, max_window_layers=1),
        "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=16),
    },
    drawn={
        ("use_sliding_window", "layer_types"): SLIDES,
        "sliding_window": WINDOWS,
        "max_window_layers": [0, 1, 3, 4],
    },
    swept="window",
    gguf={"tied": GgufForm("qwen2")},
)
