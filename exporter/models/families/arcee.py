"""Arcee's AFM: Llama with a feed-forward part that is not gated, of squared ReLU."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import mlp
from exporter.models.families import llama
from exporter.models.family import Family
from exporter.models.fields import flag
from exporter.models.spec import DecoderSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
    "hidden_act": "relu2",
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    plain = mlp(fields, flag(fields, "mlp_bias"), gated=False)
    base = llama.spec(fields)
    return replace(base, layers=tuple(replace(x, feed_forward=plain) for x in base.layers))


FAMILY = Family("arcee", spec)
