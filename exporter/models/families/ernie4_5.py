"""ERNIE 4.5, its dense models: Llama whose heads rotate in pairs of neighbours."""

from collections.abc import Mapping
from typing import Any

from exporter.models.families import glm, llama
from exporter.models.family import Family
from exporter.models.fields import flag
from exporter.models.spec import DecoderSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "tie_word_embeddings": True,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    bias = flag(fields, "use_bias")
    return llama.spec({**fields, "attention_bias": bias, "mlp_bias": bias})


FAMILY = Family("ernie4_5", spec, glm.in_halves)
