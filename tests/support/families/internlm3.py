"""InternLM 3."""

from support.family_data import FamilyData
from support.rotary_fields import rope

DATA = FamilyData(
    models="InternLM 3",
    row="llama",
    cases={
        "dynamic": dict(head_dim=16, **rope("dynamic", factor=6.0)),
        "biases": dict(head_dim=8, qkv_bias=True, bias=True),
    },
    drawn={"head_dim": [8]},
)
