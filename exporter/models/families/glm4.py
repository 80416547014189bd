"""GLM-4 of 2025: GLM with norms after the blocks, too."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.families import glm
from exporter.models.family import Family
from exporter.models.spec import DecoderSpec, Norms

_AROUND_ATTENTION = Norms("input_layernorm", "post_self_attn_layernorm")
_AROUND_MLP = Norms("post_attention_layernorm", "post_mlp_layernorm")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    plain = glm.spec(config)
    layers = (
        replace(layer, mixer_norms=_AROUND_ATTENTION, feed_forward_norms=_AROUND_MLP)
        for layer in plain.layers
    )
    return replace(plain, layers=tuple(layers))


FAMILY = Family("glm4", spec, glm.stored)
