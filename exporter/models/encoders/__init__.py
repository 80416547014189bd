"""Encoders: each file says what the config.json of one model_type means."""

from collections.abc import Mapping
from typing import Any

from exporter.models.encoder_spec import EncoderSpec
from exporter.models.encoders import bert, roberta
from exporter.models.family import Family

FAMILIES = {family.model_type: family for family in (bert.FAMILY, *roberta.FAMILIES)}


def encoder_family(fields: Mapping[str, Any]) -> Family[EncoderSpec] | None:
    """Returns the family of a config.json; None if it is not an encoder's."""
    model_type = fields.get("model_type")
    return FAMILIES.get(model_type) if isinstance(model_type, str) else None
