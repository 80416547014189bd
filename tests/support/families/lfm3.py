"""LFM3."""

from support.family_data import FamilyData, Row, either
from support.rotary_fields import by_kind, drawn_by_kind, rope

KINDS = ["conv", "sliding_attention", "full_attention"]

DATA = FamilyData(
    models="LFM3",
    row=Row(
        "as LFM2; norms after the blocks, windows, gated heads",
        "4e-6",
        "`cpu`",
        refused="`mlx` `mps`: convolutions",
    ),
    cases={
        "kinds": dict(head_dim=16, sliding_window=9, layer_types=KINDS),
        "no-gate": dict(
            head_dim=8,
            sliding_window=9,
            layer_types=KINDS[::-1],
            use_sandwich_norm=False,
            use_attention_gate=False,
            conv_bias=True,
            **by_kind(rope("default", 1e3), rope("default", 1e4)),
        ),
    },
    drawn={
        **either("use_sandwich_norm", "use_attention_gate", "conv_bias", "attention_bias"),
        "head_dim": [8, 16],
        "layer_types": [[*KINDS, "conv"], ["sliding_attention", "full_attention"] * 2],
        "sliding_window": [5, 9],
        "conv_L_cache": [2, 7],
        "norm_eps": [1e-6, 1e-3],
    },
    rotary=drawn_by_kind,
    checked=["kinds"],
)
