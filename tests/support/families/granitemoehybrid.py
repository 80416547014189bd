"""The dense models of Granite 4."""

from typing import Any

from support.families.granite import MULTIPLIERS
from support.family_data import EITHER, FamilyData

DENSE: dict[str, Any] = dict(
    **MULTIPLIERS,
    layer_types=["full_attention"] * 3,
    num_local_experts=0,
    shared_intermediate_size=72,
    position_embedding_type="rope",
    mamba_n_heads=6,
)

DATA = FamilyData(
    models="dense 4",
    row="granite",
    cases={
        "dense": DENSE,
        "no-rope": {**DENSE, "position_embedding_type": None, "attention_bias": True},
    },
    drawn={
        **{name: [value] for name, value in DENSE.items()},
        "layer_types": [["full_attention"] * 4],
        "attention_bias": EITHER,
        "position_embedding_type": [None, "rope"],
        "shared_intermediate_size": [40, 72],
        "residual_multiplier": [1.0, 0.3],
    },
)
