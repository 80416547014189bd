"""StableLM."""

from support.families.glm import drawn_part
from support.family_data import FamilyData, GgufForm, Row, either

KEYS = {
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "use_parallel_residual": "use_parallel_residual",
}

DATA = FamilyData(
    models="StableLM 2, 3B, Zephyr",
    row=Row("LayerNorms, biases, a quarter of each head rotates, perhaps parallel blocks", "2e-6"),
    cases={
        "sequential": dict(use_qkv_bias=True),
        "parallel": dict(use_parallel_residual=True, tie_word_embeddings=True, qk_layernorm=True),
    },
    drawn={
        **either("use_qkv_bias", "use_parallel_residual", "qk_layernorm"),
        "layer_norm_eps": [1e-5, 1e-3],
    },
    rotary=drawn_part,
    gguf={
        label: GgufForm("stablelm", KEYS, {"rope.dimension_count": 2})
        for label in ("sequential", "parallel")
    },
)
