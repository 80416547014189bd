"""How a model writes what it hears, from its generation_config.json: schemas/transcription.fbs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers

from exporter.catalogue.weight_files import CONFIG
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.fields import count, token_ids
from exporter.models.whisper import WhisperSpec

TRANSCRIPTION = "thimble.transcription"  # the name of the blob in a file
_VERSION, _BLANK_VERSION = 1, 2
_IDENTIFIER = b"THTR"
_FILE = "generation_config.json"
_NONE = -1  # what stands for a token that there is not
_LEAST_TOKENS = 8  # of a text, with those around it


@dataclass(frozen=True)
class Transcription:
    """
    Attributes:
        start, end: the tokens around every text.
        no_timestamps: what says that a text has none; a model that never has any knows none.
        transcribe, translate: what a model of several languages is told to do.
        languages: their codes, such as "de", and their tokens.
        suppress: tokens that are never written.
        begin_suppress: nor as the first of a text.
        alignment_heads: a layer of the decoder and a head of it each, whose attention to the window
            tells when words were spoken; none: nothing tells it.
        decoder_heads: of each layer.
        blank: of an encoder's states without a token; there is then no decoder.
    """

    start: int = _NONE
    end: int = _NONE
    no_timestamps: int = _NONE
    transcribe: int = _NONE
    translate: int = _NONE
    languages: Mapping[str, int] = field(default_factory=dict)
    suppress: tuple[int, ...] = ()
    begin_suppress: tuple[int, ...] = ()
    alignment_heads: tuple[tuple[int, int], ...] = ()
    decoder_heads: int = 0
    blank: int = _NONE

    @property
    def asking_layers(self) -> list[int]:
        """Those of the alignment heads, in order."""
        return sorted({layer for layer, _ in self.alignment_heads})

    @property
    def has_times(self) -> bool:
        """Whether the model has tokens of times, or of none."""
        return self.no_timestamps != _NONE

    @property
    def timed_parts(self) -> list[str]:
        """What times can be told of: "segment" and "word"."""
        by_states = self.blank != _NONE
        known = {
            "segment": by_states or self.has_times,
            "word": by_states or bool(self.alignment_heads),
        }
        return [part for part, is_known in known.items() if is_known]


def read_transcription(directory: Path, spec: WhisperSpec) -> Transcription:
    """
    Args:
        spec: of the model; tokens and heads beyond its own are refused.

    Raises:
        ExportError: a file is missing or damaged, or lacks a token.
    """
    path = directory / _FILE
    if not path.is_file():
        raise ExportError(f"{directory} has no {_FILE}, which says how the model writes texts.")
    fields = {**read_object(directory / CONFIG), **read_object(path)}
    languages = _named(path, fields, "lang_to_id")
    tasks = _named(path, fields, "task_to_id")
    if languages and not {"transcribe", "translate"} <= tasks.keys():
        raise ExportError(f"{path} has languages, but task_to_id lacks transcribe or translate.")
    read = Transcription(
        start=_one(path, fields, "decoder_start_token_id"),
        end=_one(path, fields, "eos_token_id"),
        no_timestamps=_one(path, fields, "no_timestamps_token_id"),
        transcribe=tasks["transcribe"] if languages else _NONE,
        translate=tasks["translate"] if languages else _NONE,
        languages={code.strip("<|>"): token for code, token in languages.items()},
        suppress=token_ids(fields, "suppress_tokens"),
        begin_suppress=token_ids(fields, "begin_suppress_tokens"),
        alignment_heads=read_alignment_heads(path, fields, spec),
        decoder_heads=spec.decoder_attention_heads,
    )
    tokens = [read.start, read.end, read.no_timestamps, *languages.values(), *tasks.values()]
    _check_tokens(path, (*tokens, *read.suppress, *read.begin_suppress), spec.vocab_size)
    return read


def read_ends(directory: Path, vocab_size: int) -> tuple[Transcription, int | None]:
    """Reads the tokens around texts alone, of a model that has no others, and the most tokens of a
    text with them; None: the file does not say.

    Raises:
        ExportError: as read_transcription().
    """
    path = directory / _FILE
    fields = read_object(directory / CONFIG)
    if path.is_file():
        fields = {**fields, **read_object(path)}
    if fields.get("decoder_start_token_id") is None:
        fields["decoder_start_token_id"] = fields.get("bos_token_id")
    read = Transcription(
        start=_one(path, fields, "decoder_start_token_id"),
        end=_one(path, fields, "eos_token_id"),
        suppress=token_ids(fields, "suppress_tokens"),
        begin_suppress=token_ids(fields, "begin_suppress_tokens"),
    )
    _check_tokens(path, (read.start, read.end, *read.suppress, *read.begin_suppress), vocab_size)
    most = fields.get("max_length")
    return read, None if most is None else count(fields, "max_length", least=_LEAST_TOKENS)


def _check_tokens(path: Path, tokens: Sequence[int], vocab_size: int) -> None:
    beyond = [one for one in tokens if one >= vocab_size]
    if beyond:
        raise ExportError(
            f"{path} names token {beyond[0]}, but the model has a vocabulary of {vocab_size}; take "
            "both from the same model."
        )


def _one(path: Path, fields: Mapping[str, Any], name: str) -> int:
    tokens = token_ids(fields, name)
    if len(tokens) != 1:
        raise ExportError(f"{path} has {name} {fields.get(name)!r}, but it must be one token id.")
    return tokens[0]


def _named(path: Path, fields: Mapping[str, Any], name: str) -> dict[str, int]:
    tokens = fields.get(name) or {}
    if not isinstance(tokens, dict) or not all(type(one) is int for one in tokens.values()):
        raise ExportError(f"{path} has a {name} that does not map names to token ids.")
    return tokens


def read_alignment_heads(
    path: Path, fields: Mapping[str, Any], spec: WhisperSpec
) -> tuple[tuple[int, int], ...]:
    """Returns pairs of a layer and a head, in order; none if the fields have none.

    Raises:
        ExportError: they are not heads of the model.
    """
    bounds = spec.decoder_layers, spec.decoder_attention_heads

    def is_head(pair: Any) -> bool:
        return (
            isinstance(pair, list)
            and len(pair) == len(bounds)
            and all(
                type(one) is int and one in range(most)
                for one, most in zip(pair, bounds, strict=True)
            )
        )

    pairs = fields.get("alignment_heads") or []
    if not isinstance(pairs, list) or not all(map(is_head, pairs)):
        raise ExportError(
            f"{path} has alignment_heads that are not pairs of a layer, below {bounds[0]}, and a "
            f"head, below {bounds[1]}; take it from the same model."
        )
    return tuple(sorted((layer, head) for layer, head in pairs))


def write_transcription(settings: Transcription) -> bytes:
    """Returns the flatbuffer; its slots are the schema's fields, in order."""
    builder = flatbuffers.Builder(4096)
    languages = [_language(builder, *item) for item in settings.languages.items()]
    builder.StartVector(4, len(languages), 4)
    for language in reversed(languages):
        builder.PrependUOffsetTRelative(language)
    vectors = {6: builder.EndVector()}
    vectors[7] = _tokens(builder, settings.suppress)
    vectors[8] = _tokens(builder, settings.begin_suppress)
    vectors[9] = _tokens(builder, [number for pair in settings.alignment_heads for number in pair])
    builder.StartObject(12)
    version = _VERSION if settings.blank == _NONE else _BLANK_VERSION
    builder.PrependUint32Slot(0, version, 0)
    tokens = settings.start, settings.end, settings.transcribe, settings.translate
    for slot, token in enumerate((*tokens, settings.no_timestamps), start=1):
        builder.PrependInt32Slot(slot, token, 0)
    for slot, vector in vectors.items():
        builder.PrependUOffsetTRelativeSlot(slot, vector, 0)
    builder.PrependUint32Slot(10, settings.decoder_heads, 0)
    builder.PrependInt32Slot(11, settings.blank, _NONE)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _language(builder: flatbuffers.Builder, code: str, token: int) -> int:
    text = builder.CreateString(code)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    builder.PrependInt32Slot(1, token, 0)
    return int(builder.EndObject())


def _tokens(builder: flatbuffers.Builder, tokens: Sequence[int]) -> int:
    builder.StartVector(4, len(tokens), 4)
    for token in reversed(tokens):
        builder.PrependInt32(token)
    return int(builder.EndVector())
