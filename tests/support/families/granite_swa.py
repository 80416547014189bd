"""Granite with windows."""

from support.families import granite
from support.family_data import MAYBE_KINDS, WINDOWS, FamilyData, Row

DATA = FamilyData(
    models="Granite with windows",
    row=Row("as Granite; sinks, windows in 3 of 4 layers, bases by layer", "4e-5"),
    cases={
        "pattern": dict(**granite.MULTIPLIERS, sliding_window=9, num_hidden_layers=5),
        "bases": dict(
            sliding_window=7,
            layer_rope_theta=[0, 1e4, 1e3],
            attention_bias=True,
            tie_word_embeddings=False,
        ),
    },
    drawn={
        **granite.DATA.drawn,
        "sliding_window": WINDOWS,
        "layer_types": MAYBE_KINDS,
        "layer_rope_theta": [None, [0, 1e4, 0, 1e3]],
    },
    swept="bases",
)
