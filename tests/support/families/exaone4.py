"""EXAONE 4."""

from support.family_data import MAYBE_KINDS, MIXED, WINDOWS, FamilyData, GgufForm, Row
from support.rotary_fields import LLAMA3

DATA = FamilyData(
    models="EXAONE 4",
    row=Row(
        "norms after blocks, full layers without rotation",
        "8e-6",
        "`cpu` `coreml` `mlx` `mps`",
        "`xnnpack`",
    ),
    cases={
        "hybrid": dict(sliding_window=9, sliding_window_pattern=2),
        "listed": dict(sliding_window=9, layer_types=MIXED, **LLAMA3),
        "full": dict(
            sliding_window=None,
            layer_types=["full_attention"] * 3,
            tie_word_embeddings=True,
            **LLAMA3,
        ),
    },
    drawn={
        "layer_types": MAYBE_KINDS,
        "sliding_window": WINDOWS,
        "sliding_window_pattern": [1, 2, 3],
    },
    gguf={"full": GgufForm("exaone4", factors={"rope_freqs.weight": "llama3"})},
)
