"""Seed-OSS."""

from support.family_data import FamilyData, Row, either

DATA = FamilyData(
    models="Seed-OSS",
    row=Row("biases, an option for that of the output", "5e-6"),
    cases={
        "plain": dict(head_dim=16),
        "out-bias": dict(head_dim=8, attention_out_bias=True, mlp_bias=True),
    },
    drawn={**either("attention_bias", "attention_out_bias", "mlp_bias"), "head_dim": [8]},
)
