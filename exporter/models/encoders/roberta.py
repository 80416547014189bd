"""RoBERTa (Liu et al., 2019) and XLM-RoBERTa, as multilingual E5 and BGE-M3 are: BERT, whose first
positions are behind the one of padding."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.errors import ExportError
from exporter.models.encoder_spec import EncoderSpec
from exporter.models.encoders import bert
from exporter.models.family import Family
from exporter.models.fields import count


def spec(config: Mapping[str, Any]) -> EncoderSpec:
    encoder = bert.spec(config)
    first = count(config, "pad_token_id", 1, least=0) + 1
    if encoder.max_position_embeddings <= first:
        raise ExportError(
            f"max_position_embeddings {encoder.max_position_embeddings} leaves no position behind "
            f"pad_token_id {first - 1}."
        )
    positions = encoder.max_position_embeddings - first
    return replace(encoder, max_position_embeddings=positions, first_position=first)


FAMILIES = [Family(name, spec, bert.stored, bert.is_unread) for name in ("roberta", "xlm-roberta")]
