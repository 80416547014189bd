"""Encoders: each file says what the config.json of one model_type means."""

from collections.abc import Mapping
from typing import Any

from exporter.models.encoder_spec import AnyEncoderSpec
from exporter.models.encoders import bert, gemma3_text, modernbert, qwen3, roberta
from exporter.models.family import Family

_ALL: tuple[Family[Any], ...] = (
    bert.FAMILY,
    gemma3_text.FAMILY,
    modernbert.FAMILY,
    qwen3.FAMILY,
    *roberta.FAMILIES,
)
FAMILIES: dict[str, Family[AnyEncoderSpec]] = {family.model_type: family for family in _ALL}


def encoder_family(fields: Mapping[str, Any]) -> Family[AnyEncoderSpec] | None:
    """Returns the family of a config.json; None if it is not an encoder's."""
    model_type = fields.get("model_type")
    return FAMILIES.get(model_type) if isinstance(model_type, str) else None
