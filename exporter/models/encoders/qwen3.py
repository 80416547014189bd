"""Qwen3-Embedding: Qwen3 without its head, whose last token's row is the text's."""

from collections.abc import Mapping
from typing import Any

from exporter.models.encoder_spec import StackSpec
from exporter.models.encoders.stack import bare, is_head, reading_texts
from exporter.models.families import qwen3
from exporter.models.family import Family


def spec(config: Mapping[str, Any]) -> StackSpec:
    return reading_texts(qwen3.spec(config), "before")


FAMILY: Family[StackSpec] = Family("qwen3", spec, bare(qwen3.FAMILY.stored), is_head)
