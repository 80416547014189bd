"""Mixtral."""

from support.family_data import EXPERT_KEYS, WINDOWS, FamilyData, GgufForm, Row

EXPERTS = dict(num_local_experts=7, num_experts_per_tok=2)

DATA = FamilyData(
    models="Mixtral",
    row=Row("experts, a window", "7e-6", "`cpu` `coreml`", "`xnnpack`", "all others: experts"),
    cases={
        "experts": EXPERTS,
        "window": dict(**EXPERTS, sliding_window=9, head_dim=12, tie_word_embeddings=True),
    },
    drawn={
        "sliding_window": [None, *WINDOWS],
        "head_dim": [8],
        "num_local_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
    },
    swept="window",
    gguf={"experts": GgufForm("llama", EXPERT_KEYS, pairs_rotate=True)},
)
