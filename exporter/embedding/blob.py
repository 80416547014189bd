"""Writes the flatbuffer of schemas/embedding.fbs; the slots below are its fields, in order."""

from collections.abc import Sequence

import flatbuffers

from exporter.embedding.settings import EmbeddingSettings
from exporter.embedding.text import Template
from exporter.file.flatbuffer_tables import table, tables

EMBEDDING = "thimble.embedding"  # the name of the blob in a file
VERSION = 1
_IDENTIFIER = b"THEM"


def write_blob(settings: EmbeddingSettings, template: Template, max_seq_len: int) -> bytes:
    """Returns the flatbuffer."""
    builder = flatbuffers.Builder(256)
    prompts = [_prompt(builder, *item) for item in settings.prompts.items()]
    offsets = {4: tables(builder, prompts)}
    offsets |= {2: _tokens(builder, template.before), 3: _tokens(builder, template.after)}
    if settings.default_prompt is not None:
        offsets[5] = builder.CreateString(settings.default_prompt)
    builder.StartObject(6)
    builder.PrependUint32Slot(0, VERSION, 0)
    builder.PrependUint32Slot(1, max_seq_len, 0)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _tokens(builder: flatbuffers.Builder, tokens: Sequence[int]) -> int:
    builder.StartVector(4, len(tokens), 4)
    for token in reversed(tokens):
        builder.PrependInt32(token)
    return int(builder.EndVector())


def _prompt(builder: flatbuffers.Builder, name: str, text: str) -> int:
    return table(builder, builder.CreateString(name), builder.CreateString(text))
