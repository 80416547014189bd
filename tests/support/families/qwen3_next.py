"""Qwen3-Next."""

from support.families import qwen2_moe, qwen3_5_text
from support.family_data import FamilyData, GgufForm, Row

SHAPE = {**qwen3_5_text.QWEN3_5, **qwen2_moe.MIXTURE}
KEYS = {**qwen3_5_text.KEYS, **qwen2_moe.KEYS}
SIZES = {**qwen3_5_text.SIZES, "full_attention_interval": 4}

DATA = FamilyData(
    models="Qwen3-Next",
    row=Row(
        "as Qwen 3.5; experts, one of which all tokens share",
        "8e-5",
        "`cpu`",
        refused="`xnnpack` `coreml`: the delta rule; all others: experts, the delta rule",
    ),
    cases={
        "interval": {**SHAPE, "num_hidden_layers": 4},
        "fused": {**SHAPE, "num_hidden_layers": 4},
        "listed": dict(
            **SHAPE,
            layer_types=["full_attention", "linear_attention", "linear_attention"],
            mlp_only_layers=[1],
            norm_topk_prob=False,
            attention_bias=True,
            tie_word_embeddings=True,
        ),
    },
    drawn={
        **qwen3_5_text.DATA.drawn,
        "num_experts": [4, 9],
        "num_experts_per_tok": [1, 2, 4],
        "moe_intermediate_size": [24, 40],
        "shared_expert_intermediate_size": [24, 56],
        "norm_topk_prob": [False, True],
    },
    rotary=qwen3_5_text.DATA.rotary,
    gguf={
        "interval": GgufForm("qwen3next", KEYS, SIZES),
        "fused": GgufForm("qwen3next", KEYS, SIZES, fused=True),
    },
    norms_from_one=True,
)
