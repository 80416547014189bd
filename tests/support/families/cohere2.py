"""Command R7B and A."""

from support.families import cohere
from support.family_data import MAYBE_KINDS, MIXED, WINDOWS, FamilyData, Row

DATA = FamilyData(
    models="Command R7B, Command A",
    row=Row("as Command R; windows in 3 of 4 layers, full layers without rotation", "5e-6"),
    cases={
        "pattern": dict(logit_scale=0.3, sliding_window=9, num_hidden_layers=4),
        "listed": dict(
            logit_scale=1.5,
            sliding_window=7,
            layer_types=MIXED[::-1],
            attention_bias=True,
            tie_word_embeddings=False,
        ),
    },
    drawn={**cohere.DATA.drawn, "layer_types": MAYBE_KINDS, "sliding_window": WINDOWS},
    swept="listed",
)
