"""IQuest-Coder: Llama with heads of their own size."""

from collections.abc import Mapping
from typing import Any

from exporter.models.families import llama
from exporter.models.family import Family
from exporter.models.fields import refuse
from exporter.models.spec import DecoderSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 8,
    "head_dim": 128,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    refuse(fields, "clip_qkv")
    refuse(fields, "use_sliding_window", False)
    return llama.spec(fields)


FAMILY = Family("iquestcoder", spec)
