"""EmbeddingGemma: Gemma 3 without its head, whose tokens see those on both sides."""

from collections.abc import Mapping
from typing import Any

from exporter.models.encoder_spec import StackSpec
from exporter.models.encoders.stack import bare, is_head, reading_texts
from exporter.models.families import gemma3_text
from exporter.models.family import Family
from exporter.models.fields import count, flag

_BOTH_SIDES = "use_bidirectional_attention"
_WINDOW = 4096  # of a config that has none


def spec(config: Mapping[str, Any]) -> StackSpec:
    fields = dict(config)
    if not flag(fields, _BOTH_SIDES):
        return reading_texts(gemma3_text.spec(fields), "before")
    # The config's window is of both sides together; ours is one side with the token itself.
    fields["sliding_window"] = count(fields, "sliding_window", _WINDOW) // 2 + 1
    return reading_texts(gemma3_text.spec({**fields, _BOTH_SIDES: False}), "all")


FAMILY: Family[StackSpec] = Family("gemma3_text", spec, bare(gemma3_text.FAMILY.stored), is_head)
