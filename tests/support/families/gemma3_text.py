"""Gemma 3."""

from support.families.gemma2 import GEMMA
from support.family_data import (
    ACTIVATIONS,
    EITHER,
    HEAD_KEYS,
    MAYBE_KINDS,
    MIXED,
    WINDOW_KEYS,
    WINDOWS,
    FamilyData,
    GgufForm,
    Row,
)
from support.rotary_fields import by_kind, drawn_by_kind, rope

PATTERN = {**GEMMA, "query_pre_attn_scalar": 16, "num_hidden_layers": 7}
ROPES = by_kind(rope("linear", 1e6, factor=8.0), rope("default", 1e4))
KEYS = {**HEAD_KEYS, **WINDOW_KEYS}

DATA = FamilyData(
    models="Gemma 3",
    row=Row(
        "as Gemma 2; norms of heads, windows in 5 of 6 layers",
        "7e-6",
        "`cpu` `coreml` `mlx`",
        "`xnnpack`",
        "`mps`: scaled embedding",
    ),
    cases={
        "pattern": PATTERN,
        "scaled": {**PATTERN, **ROPES},
        "listed": dict(
            **GEMMA, layer_types=MIXED, final_logit_softcapping=5.0, attention_bias=True, **ROPES
        ),
    },
    drawn={
        "hidden_activation": ACTIVATIONS,
        "attention_bias": EITHER,
        "layer_types": MAYBE_KINDS,
        "sliding_window": WINDOWS,
        "query_pre_attn_scalar": [5, 64],
        "final_logit_softcapping": [None, 4.0],
        "sliding_window_pattern": [2, 3, 6],
        "head_dim": [8],
    },
    rotary=drawn_by_kind,
    gguf={
        "pattern": GgufForm("gemma3", KEYS),
        "scaled": GgufForm(
            "gemma3", KEYS, {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}
        ),
    },
    norms_from_one=True,
)
