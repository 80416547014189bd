"""Ministral."""

from support.family_data import MIXED, WINDOWS, FamilyData

DATA = FamilyData(
    models="Ministral 8B",
    row="mistral",
    cases={"listed": dict(sliding_window=9, layer_types=MIXED, head_dim=16)},
    drawn={"sliding_window": WINDOWS, "head_dim": [8]},
)
