"""Mistral."""

from support.family_data import HEAD_KEYS, WINDOWS, FamilyData, GgufForm, Row

DATA = FamilyData(
    models="Mistral",
    row=Row(
        "a window, in all layers or those listed",
        "8e-6",
        "`cpu` `coreml` `mlx` `mps`",
        "`xnnpack`",
    ),
    cases={"window": dict(sliding_window=11), "no-window": dict(sliding_window=None, head_dim=12)},
    drawn={"sliding_window": [None, *WINDOWS]},
    gguf={"no-window": GgufForm("mistral3", HEAD_KEYS, pairs_rotate=True)},
)
