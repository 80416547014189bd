"""Gemma 4."""

import random
from typing import Any

from support.family_data import (
    ACTIVATIONS,
    WINDOW_KEYS,
    WINDOWS,
    FamilyData,
    GgufForm,
    Row,
    either,
)
from support.rotary_fields import by_kind, rope

_FULL, _SLIDING = "full_attention", "sliding_attention"
GEMMA4: dict[str, Any] = dict(
    head_dim=8,
    global_head_dim=16,
    sliding_window=9,
    num_hidden_layers=6,
    layer_types=[_SLIDING, _FULL] * 3,
    num_kv_shared_layers=3,
    use_double_wide_mlp=True,
    vocab_size_per_layer_input=199,
    hidden_size_per_layer_input=12,
    final_logit_softcapping=30.0,
)
KEYS = {
    **WINDOW_KEYS,
    "attention.key_length_swa": "head_dim",
    "attention.value_length_swa": "head_dim",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
}
CAP_KEY = {"final_logit_softcapping": "final_logit_softcapping"}
SIZES = {
    "attention.key_length": GEMMA4["global_head_dim"],
    "attention.value_length": GEMMA4["global_head_dim"],
    "rope.dimension_count": GEMMA4["global_head_dim"],
    "rope.dimension_count_swa": GEMMA4["head_dim"],
    "rope.freq_base_swa": 1e4,
    "attention.sliding_window_pattern": [True, False] * 3,
}


def factors(turned: int) -> dict[str, list[float]]:
    """Those of the first pairs of large heads, and of those that do not rotate."""
    return {"rope_freqs.weight": [1.0] * turned + [1e30] * (8 - turned)}


def drawn_tables(draw: random.Random, head_dim: int) -> dict[str, Any]:
    """Of large heads, a part rotates."""
    partial = {"partial_rotary_factor": draw.choice([0.25, 0.5, 1.0])}
    full = rope("proportional", 1e4, **partial, factor=draw.choice([1.0, 4.0]))
    return by_kind(full, rope("default", draw.choice([1e2, 1e4])))


DATA = FamilyData(
    models="Gemma 4 E2B, E4B, 31B",
    row=Row(
        "heads of two sizes, the large ones rotate in part; keys and values of earlier "
        "layers; an input of each layer from a table",
        "5e-5",
        "`cpu`",
        "`xnnpack`",
        "all others: keys and values of another layer, windows",
    ),
    cases={
        "shared": GEMMA4,
        "nothing-shared": {
            **GEMMA4,
            "num_kv_shared_layers": 0,
            "hidden_size_per_layer_input": 0,
            "final_logit_softcapping": None,
            "tie_word_embeddings": False,
        },
        "keys-are-values": {
            **GEMMA4,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 3,
            "attention_bias": True,
            "use_double_wide_mlp": False,
            **by_kind(rope("proportional", 1e6, partial_rotary_factor=0.75), rope("default", 1e3)),
        },
        "listed-sizes": {
            **GEMMA4,
            "layer_types": None,
            "num_hidden_layers": 7,
            "num_kv_shared_layers": 1,
            "per_layer_config": {
                index: {"head_dim": 20, "num_key_value_heads": 1} for index in (5, 6)
            },
        },
    },
    drawn={
        **either("attention_bias", "attention_k_eq_v", "use_double_wide_mlp"),
        "hidden_activation": ACTIVATIONS,
        "sliding_window": WINDOWS,
        "final_logit_softcapping": [None, 4.0],
        "head_dim": [8],
        "global_head_dim": [8, 16, 20],
        "num_global_key_value_heads": [None, 1, 2, 6],
        "layer_types": [[_SLIDING, _FULL] * 2],
        # transformers does not run shared layers without inputs of their own.
        ("hidden_size_per_layer_input", "num_kv_shared_layers"): [
            (0, 0),
            (12, 0),
            (12, 1),
            (12, 2),
        ],
        "vocab_size_per_layer_input": [199, 230],
    },
    rotary=drawn_tables,
    checked=["shared"],
    gguf={
        "shared": GgufForm(
            "gemma4",
            {**KEYS, **CAP_KEY},
            {**SIZES, "feed_forward_length": [88] * 3 + [176] * 3},
            factors=factors(2),
        ),
        "keys-are-values": GgufForm(
            "gemma4",
            {**KEYS, **CAP_KEY},
            {**SIZES, "attention.head_count_kv": [2, 3] * 3, "rope.freq_base_swa": 1e3},
            factors=factors(6),
        ),
        "nothing-shared": GgufForm("gemma4", KEYS, SIZES, factors=factors(2)),
    },
)
