"""HyperCLOVA X."""

from support.families import granite
from support.family_data import FamilyData, Row

DATA = FamilyData(
    models="HyperCLOVA X SEED Think",
    row=Row("as Granite; norms after the blocks, too", "4e-6"),
    cases={
        "plain": {},
        "multipliers": dict(**granite.MULTIPLIERS, attention_bias=True, mlp_bias=True),
        "no-norms": dict(**granite.MULTIPLIERS, use_post_norm=False, tie_word_embeddings=True),
    },
    drawn={
        **granite.DATA.drawn,
        "attention_multiplier": [None, 0.3],
        "use_post_norm": [False, True],
    },
    swept="multipliers",
)
