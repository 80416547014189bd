"""Gemma 2."""

from typing import Any

from support.family_data import ACTIVATIONS, EITHER, MAYBE_KINDS, WINDOWS, FamilyData, Row

GEMMA: dict[str, Any] = dict(head_dim=16, query_pre_attn_scalar=10, sliding_window=9)

DATA = FamilyData(
    models="Gemma 2",
    row=Row(
        "four norms, GELU, scaled embedding, caps on attention and logits",
        "4e-6",
        "`cpu` `coreml`",
        refused="`xnnpack` `mlx` `mps`: the cap on attention",
    ),
    cases={
        "caps": dict(**GEMMA, attn_logit_softcapping=0.5),
        "no-attention-cap": dict(**GEMMA, attn_logit_softcapping=None),
        "no-caps": dict(
            **GEMMA,
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
            attention_bias=True,
            tie_word_embeddings=False,
        ),
    },
    drawn={
        "hidden_activation": ACTIVATIONS,
        "attention_bias": EITHER,
        "layer_types": MAYBE_KINDS,
        "sliding_window": WINDOWS,
        "query_pre_attn_scalar": [5, 64],
        "final_logit_softcapping": [None, 4.0],
        "attn_logit_softcapping": [None, 0.7],
        "head_dim": [8],
    },
    checked=["caps"],
    norms_from_one=True,
)
