"""Code World Model."""

from support.family_data import EITHER, MAYBE_KINDS, WINDOWS, FamilyData, Row
from support.rotary_fields import LLAMA3

DATA = FamilyData(
    models="Code World Model",
    row=Row(
        "windows in 3 of 4 layers, llama3's rotation",
        "1e-5",
        whole="`cpu` `mlx` `mps`; others not tried",
    ),
    cases={"pattern": dict(head_dim=16, sliding_window=9, num_hidden_layers=5, **LLAMA3)},
    drawn={
        "layer_types": MAYBE_KINDS,
        "sliding_window": WINDOWS,
        "mlp_bias": EITHER,
        "head_dim": [8],
    },
)
