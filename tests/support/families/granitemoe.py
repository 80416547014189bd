"""Granite 3 with experts."""

from support.families.granite import KEYS, MULTIPLIERS
from support.family_data import EITHER, EXPERT_KEYS, FamilyData, GgufForm, Row

EXPERTS = dict(num_local_experts=7, num_experts_per_tok=3)

DATA = FamilyData(
    models="Granite 3 MoE",
    row=Row("experts, multipliers", "2e-5", "`cpu` `coreml`", "`xnnpack`", "all others: experts"),
    cases={
        "experts": EXPERTS,
        "multipliers": dict(**EXPERTS, **MULTIPLIERS, attention_bias=True),
        "tied": dict(**EXPERTS, **MULTIPLIERS, tie_word_embeddings=True),
    },
    drawn={
        "attention_bias": EITHER,
        "embedding_multiplier": [1.0, 3.0],
        "attention_multiplier": [0.1, 1.0],
        "residual_multiplier": [1.0, 0.3],
        "logits_scaling": [1.0, 0.25],
        "num_local_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
    },
    swept="multipliers",
    gguf={"tied": GgufForm("granitemoe", {**KEYS, **EXPERT_KEYS}, pairs_rotate=True)},
)
