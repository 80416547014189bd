"""OLMo 3."""

from support.family_data import (
    EITHER,
    MAYBE_KINDS,
    MIXED,
    WINDOW_KEYS,
    WINDOWS,
    FamilyData,
    GgufForm,
    Row,
)
from support.rotary_fields import YARN, by_kind, drawn_by_kind, rope

DATA = FamilyData(
    models="OLMo 3",
    row=Row(
        "windows in 3 of 4 layers, two rotary tables",
        "5e-6",
        "`cpu` `coreml` `mlx` `mps`",
        "`xnnpack`",
    ),
    cases={
        "pattern": dict(sliding_window=7, num_hidden_layers=4),
        "base": dict(
            sliding_window=7,
            layer_types=MIXED,
            **by_kind(rope("default", 50.0), rope("default", 50.0)),
        ),
        "yarn": dict(sliding_window=7, layer_types=MIXED, **by_kind(YARN, rope("default", 1e3))),
    },
    drawn={"attention_bias": EITHER, "layer_types": MAYBE_KINDS, "sliding_window": WINDOWS},
    rotary=drawn_by_kind,
    checked=["yarn"],
    gguf={
        "pattern": GgufForm(
            "olmo2", WINDOW_KEYS, {"attention.sliding_window_pattern": [True, True, True, False]}
        ),
        "base": GgufForm(
            "olmo2", WINDOW_KEYS, {"attention.sliding_window_pattern": [True, False, True]}
        ),
    },
)
