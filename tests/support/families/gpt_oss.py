"""gpt-oss."""

from typing import Any

from support.family_data import (
    EITHER,
    EXPERT_KEYS,
    HEAD_KEYS,
    MAYBE_KINDS,
    MIXED,
    WINDOW_KEYS,
    WINDOWS,
    FamilyData,
    GgufForm,
    Row,
    yarn_keys,
)
from support.rotary_fields import YARN, rope

GPT_OSS: dict[str, Any] = dict(
    head_dim=16,
    num_local_experts=7,
    num_experts_per_tok=3,
    sliding_window=9,
    swiglu_limit=0.7,  # which random models reach
)
ROPE = rope("yarn", 1e3, factor=4.0, original_max_position_embeddings=16, truncate=False)
TRUNCATED = rope("yarn", 1e3, factor=4.0, original_max_position_embeddings=16)  # as in llama.cpp
INNER_KEYS = {"expert_feed_forward_length": "intermediate_size"}

DATA = FamilyData(
    models="gpt-oss",
    row=Row(
        "experts with biases, a clamped gate, sinks, windows in every other layer, YaRN",
        "4e-6",
        "`cpu` `coreml`",
        refused="`xnnpack`: sinks; all others: experts",
    ),
    cases={
        "tied": dict(**GPT_OSS, tie_word_embeddings=True, attention_bias=False, **YARN),
        "yarn": {**GPT_OSS, **ROPE, "num_hidden_layers": 4},
        "published-limit": {**GPT_OSS, **TRUNCATED, "swiglu_limit": 7.0},
        "mxfp4": {  # whose rows are whole groups
            **GPT_OSS,
            **rope("default"),
            "hidden_size": 64,
            "intermediate_size": 96,
            "layer_types": MIXED,
        },
    },
    drawn={
        "hidden_act": ["silu"],
        "attention_bias": EITHER,
        "layer_types": MAYBE_KINDS,
        "sliding_window": WINDOWS,
        "head_dim": [8],
        "num_local_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
        "swiglu_limit": [0.4, 7.0],
    },
    swept="yarn",
    checked=["yarn"],
    gguf={
        "published-limit": GgufForm(
            "gpt-oss", {**HEAD_KEYS, **WINDOW_KEYS, **EXPERT_KEYS, **INNER_KEYS}, yarn_keys(16)
        )
    },
)
