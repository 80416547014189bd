"""IQuest-Coder."""

from support.family_data import EITHER, FamilyData

DATA = FamilyData(
    models="IQuest-Coder",
    row="llama",
    cases={"plain": dict(head_dim=16)},
    drawn={"attention_bias": EITHER, "mlp_bias": EITHER, "head_dim": [8]},
)
