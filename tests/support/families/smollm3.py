"""SmolLM 3."""

from support.family_data import MAYBE_KINDS, WINDOWS, FamilyData, GgufForm, Row, either

DATA = FamilyData(
    models="SmolLM 3",
    row=Row("layers without rotation", "7e-6", "`cpu` `coreml` `mlx` `mps`", "`xnnpack`"),
    cases={
        "interval": dict(no_rope_layer_interval=2),
        "every-fourth": dict(num_hidden_layers=4, tie_word_embeddings=True),
        "listed": dict(no_rope_layers=[0, 1, 1], attention_bias=True, mlp_bias=True),
        "untied": dict(tie_word_embeddings=False),
        "windows": dict(no_rope_layer_interval=2, use_sliding_window=True, sliding_window=6),
    },
    drawn={
        **either("attention_bias", "mlp_bias", "use_sliding_window"),
        "layer_types": MAYBE_KINDS,
        "sliding_window": WINDOWS,
        "no_rope_layer_interval": [1, 2, 3],
    },
    swept="windows",
    gguf={"every-fourth": GgufForm("smollm3", pairs_rotate=True)},
)
