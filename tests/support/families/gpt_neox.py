"""GPT-NeoX."""

from support.families.glm import drawn_part
from support.family_data import FamilyData, GgufForm, Row, either

KEYS = {
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "use_parallel_residual": "use_parallel_residual",
}

DATA = FamilyData(
    models="GPT-NeoX, Pythia",
    row=Row(
        "parallel blocks, LayerNorms, fused weights, biases, a quarter of each head rotates", "2e-6"
    ),
    cases={
        "parallel": {},
        "approximate": dict(hidden_act="gelu_new"),
        "sequential": dict(
            use_parallel_residual=False, attention_bias=False, rotary_pct=0.5, hidden_act="relu"
        ),
    },
    drawn={
        **either("use_parallel_residual", "attention_bias"),
        "layer_norm_eps": [1e-5, 1e-3],
        "tie_word_embeddings": [False],
    },
    rotary=drawn_part,
    gguf={"approximate": GgufForm("gptneox", KEYS, {"rope.dimension_count": 2})},
)
