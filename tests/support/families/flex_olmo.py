"""FlexOlmo."""

from support.families.olmoe import EXPERTS
from support.family_data import EITHER, FamilyData

DATA = FamilyData(
    models="FlexOlmo",
    row="olmoe",
    cases={
        "experts": EXPERTS,
        "normalized": dict(**EXPERTS, norm_topk_prob=True, attention_bias=True),
    },
    drawn={
        "attention_bias": EITHER,
        "norm_topk_prob": EITHER,
        "num_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
    },
)
