"""Granite 3."""

from typing import Any

from support.family_data import FamilyData, GgufForm, Row, either

MULTIPLIERS: dict[str, Any] = dict(
    embedding_multiplier=12.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=0.5
)
KEYS = {
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
}

DATA = FamilyData(
    models="Granite 3",
    row=Row("multipliers", "4e-5", "`cpu` `coreml` `mlx`", "`xnnpack`", "`mps`: scaled embedding"),
    cases={
        "plain": {},
        "multipliers": MULTIPLIERS,
        "tied-biases": dict(
            **MULTIPLIERS, tie_word_embeddings=True, attention_bias=True, mlp_bias=True
        ),
    },
    drawn={
        **either("attention_bias", "mlp_bias"),
        "embedding_multiplier": [1.0, 3.0],
        "attention_multiplier": [0.1, 1.0],
        "residual_multiplier": [1.0, 0.3],
        "logits_scaling": [1.0, 0.25],
    },
    gguf={
        "multipliers": GgufForm("granite", KEYS, pairs_rotate=True),
        "plain": GgufForm(  # a number a layer
            "granite", KEYS, {"attention.head_count_kv": [2, 2, 2]}, pairs_rotate=True
        ),
    },
)
