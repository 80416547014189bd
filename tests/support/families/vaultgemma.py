"""VaultGemma."""

from support.families import gemma2
from support.family_data import FamilyData, Row

DATA = FamilyData(
    models="VaultGemma",
    row=Row(
        "as Gemma 2, without the norms after the blocks",
        "4e-6",
        refused="`xnnpack` `mlx` `mps`: the cap on attention",
    ),
    cases={label: gemma2.DATA.cases[label] for label in ("caps", "no-caps")},
    drawn=gemma2.DATA.drawn,
    norms_from_one=True,
)
