"""Llama."""

import math
from typing import Any

from support.family_data import EITHER, FamilyData, GgufForm, Row, yarn_keys
from support.rotary_fields import LLAMA3, PROPORTIONAL, YARN, longrope, rope


def listed(factors: list[float], magnitude: float) -> dict[str, Any]:
    """A factor on each frequency, and one on cosines and sines."""
    return rope(
        "longrope",
        short_factor=factors,
        long_factor=factors,
        factor=1.0,
        attention_factor=magnitude,
        original_max_position_embeddings=64,
    )


MAGNITUDE = 1.5 * (1 + 0.1 * math.log(4.0))  # llama.cpp multiplies YaRN's own
YARN_KEYS = yarn_keys(16)

DATA = FamilyData(
    models="Llama 2 to 3.3, SmolLM 2",
    row=Row("", "7e-6", "`cpu` `coreml` `mlx` `mps`", "`xnnpack`"),
    cases={
        "plain": {},
        "tied": dict(tie_word_embeddings=True),
        "llama3-rope": LLAMA3,
        "linear-rope": rope("linear", 5e3, factor=4.0),
        "dynamic-rope": {**rope("dynamic", factor=3.0), "max_position_embeddings": 24},
        "dynamic-rope-short": rope("dynamic", factor=3.0),
        "yarn": YARN,
        "yarn-magnitude": rope(
            "yarn", 1e3, factor=4.0, original_max_position_embeddings=16, attention_factor=MAGNITUDE
        ),
        "longrope": longrope(4, factor=2.0, original_max_position_embeddings=24),
        "listed": listed([1.0] * 4, 1.25),
        "listed-twos": listed([2.0] * 4, 0.75),
        "proportional-rope": dict(**PROPORTIONAL, head_dim=12),
        "theta": rope("default", 5e5),
        "biases": dict(attention_bias=True, mlp_bias=True),
        "gelu": dict(hidden_act="gelu"),
        "gelu-tanh": dict(hidden_act="gelu_pytorch_tanh"),
        "relu": dict(hidden_act="relu"),
        "quick-gelu": dict(hidden_act="quick_gelu"),
        "own-head-dim": dict(head_dim=20),
        "one-key-head": dict(num_key_value_heads=1),
        "no-gqa": dict(num_key_value_heads=6, rms_norm_eps=1e-3),
    },
    drawn={"attention_bias": EITHER, "mlp_bias": EITHER, "head_dim": [8, 8, 12]},
    swept="biases",
    gguf={
        "plain": GgufForm("llama", pairs_rotate=True),
        "llama3-rope": GgufForm(
            "llama",
            more={"rope.scaling.original_context_length": 7},
            pairs_rotate=True,
            factors={"rope_freqs.weight": "llama3"},
        ),
        "yarn": GgufForm(  # of which llama.cpp reads neither of the last three
            "llama",
            more={
                **YARN_KEYS,
                "rope.scaling.yarn_ext_factor": 0.0,
                "rope.scaling.yarn_beta_fast": 2.0,
                "attention.temperature_scale": 0.3,
            },
            pairs_rotate=True,
        ),
        "yarn-magnitude": GgufForm(
            "llama", more={**YARN_KEYS, "rope.scaling.attn_factor": 1.5}, pairs_rotate=True
        ),
        "linear-rope": GgufForm(
            "llama",
            more={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
            pairs_rotate=True,
        ),
        "listed": GgufForm("llama", more={"rope.scaling.attn_factor": 1.25}, pairs_rotate=True),
        "listed-twos": GgufForm(  # a factor without a type
            "llama",
            more={"rope.scaling.factor": 2.0, "rope.scaling.attn_factor": 0.75},
            pairs_rotate=True,
        ),
    },
)
