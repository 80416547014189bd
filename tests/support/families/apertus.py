"""Apertus."""

from support.family_data import ACTIVATIONS, EITHER, FamilyData, Row

DATA = FamilyData(
    models="Apertus",
    row=Row("xIELU without a gate, norms of heads", "3e-6"),
    cases={"xielu": {}, "biases": dict(attention_bias=True, tie_word_embeddings=True)},
    drawn={"attention_bias": EITHER, "hidden_act": ["xielu"] * 4 + ACTIVATIONS},
    checked=["xielu"],
)
