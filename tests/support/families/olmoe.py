"""OLMoE."""

from support.family_data import EITHER, FamilyData, GgufForm, Row

KEYS = {"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok"}
EXPERTS = dict(num_experts=7, num_experts_per_tok=3)

DATA = FamilyData(
    models="OLMoE",
    row=Row(
        "experts, norms of all heads at once",
        "8e-6",
        "`cpu` `coreml`",
        "`xnnpack`",
        "all others: experts",
    ),
    cases={
        "experts": EXPERTS,
        "normalized": dict(
            **EXPERTS, norm_topk_prob=True, attention_bias=True, tie_word_embeddings=True
        ),
    },
    drawn={
        "attention_bias": EITHER,
        "norm_topk_prob": EITHER,
        "num_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
    },
    gguf={"experts": GgufForm("olmoe", KEYS)},
)
