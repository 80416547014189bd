"""Apertus."""

from support.family_data import ACTIVATIONS, EITHER, FamilyData, GgufForm, Row
from support.rotary_fields import rope

DATA = FamilyData(
    models="Apertus",
    row=Row("xIELU without a gate, norms of heads", "3e-6"),
    cases={
        "xielu": {},
        "biases": dict(attention_bias=True, tie_word_embeddings=True),
        "one-base": rope("default"),
    },
    drawn={"attention_bias": EITHER, "hidden_act": ["xielu"] * 4 + ACTIVATIONS},
    checked=["xielu"],
    gguf={
        "xielu": GgufForm("apertus", factors={"rope_freqs.weight": "llama3"}),
        "one-base": GgufForm("apertus"),
    },
)
