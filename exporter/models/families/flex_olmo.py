"""FlexOlmo: OLMo 2 with a mixture of experts in the place of the MLPs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.config import experts, mlp
from exporter.models.families import olmo2, qwen3_moe
from exporter.models.family import Family
from exporter.models.fields import flag
from exporter.models.spec import DecoderSpec

_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 500000.0,
    "max_position_embeddings": 4096,
    "num_experts": 7,
    "num_experts_per_tok": 5,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    dense = olmo2.spec(fields)
    mixture = experts(fields, mlp(fields), flag(fields, "norm_topk_prob"))
    return replace(dense, layers=tuple(replace(x, feed_forward=mixture) for x in dense.layers))


FAMILY = Family("flex_olmo", spec, qwen3_moe.stored)
