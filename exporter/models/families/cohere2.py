"""Command R7B and A: Command R with windows in three of four layers; the others do not rotate."""

from collections.abc import Mapping
from typing import Any

from exporter.models.config import decoder, windowed
from exporter.models.families import cohere
from exporter.models.family import Family
from exporter.models.fields import FULL, SLIDING, count, layer_kinds
from exporter.models.spec import DecoderSpec

_DEFAULTS = {
    **cohere.DEFAULTS,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
}


def spec(config: Mapping[str, Any]) -> DecoderSpec:
    fields = {**_DEFAULTS, **config}
    layer = cohere.parallel(fields)
    every = count(fields, "sliding_window_pattern")
    kinds = layer_kinds(fields, lambda index: (index + 1) % every != 0)
    tables = {FULL: None, SLIDING: layer.attention.rotary}
    return cohere.scaled(fields, decoder(fields, windowed(fields, layer, kinds, tables)))


FAMILY = Family("cohere2", spec, cohere.stored)
