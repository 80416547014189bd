"""VaultGemma: Gemma 2 without the norms after the blocks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.models.families import gemma2
from exporter.models.family import Family
from exporter.models.spec import DecoderSpec, Norms

_NORMS = Norms("input_layernorm"), Norms("pre_feedforward_layernorm")


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    plain = gemma2.spec(config)
    layers = (
        replace(layer, mixer_norms=_NORMS[0], feed_forward_norms=_NORMS[1])
        for layer in plain.layers
    )
    return replace(plain, layers=tuple(layers))


FAMILY = Family("vaultgemma", spec, gemma2.stored)
