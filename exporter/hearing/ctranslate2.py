"""A Whisper in CTranslate2's form, as faster-whisper has it: its weights by Hugging Face's names,
and what its files say of sizes, features and tokens.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.catalogue.weight_files import CONFIG
from exporter.checkpoint.ctranslate2_file import CTranslate2File
from exporter.errors import ExportError
from exporter.hearing.log_mel import LogMelSettings
from exporter.hearing.transcription import Transcription, read_alignment_heads
from exporter.json_object import read_object
from exporter.models.fields import token_ids
from exporter.models.whisper import WhisperSpec

_KIND = "WhisperSpec"
_HEAD_SIZE = 64  # numbers of a head, in all Whispers
_MULTILINGUAL = 51865  # tokens of those that know several languages, at least
_TOKENIZER = "tokenizer.json"
_ALL = slice(None)


class WhisperTensors:
    """The tensors of a file by Hugging Face's names; fused ones are parted.

    Raises:
        ExportError: the file is not that of a Whisper.
    """

    def __init__(self, path: Path) -> None:
        self._file = CTranslate2File(path)
        if self._file.kind != _KIND:
            raise ExportError(f"{path} is a {self._file.kind}, but must be a {_KIND}.")
        stored = self._file.shapes()
        try:
            self.spec = _spec(stored)
            self._places = dict(_places(self.spec, stored))
            self._shapes = {
                name: (len(range(*rows.indices(stored[key][0]))), *stored[key][1:])
                for name, (key, rows) in self._places.items()
            }
        except (KeyError, IndexError) as error:
            raise ExportError(f"{path} lacks {error}; convert the model again.") from None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return self._file.dtype(self._places[name][0])

    def tensor(self, name: str) -> Tensor:
        key, rows = self._places[name]
        return self._file.tensor(key)[rows]

    def release(self) -> None:
        self._file.release()


def _spec(stored: Mapping[str, tuple[int, ...]]) -> WhisperSpec:
    vocab_size, size = stored["decoder/embeddings/weight"]
    layers, widths = {}, {}
    for part in ("encoder", "decoder"):
        layers[part] = sum(
            name.startswith(f"{part}/") and name.endswith("/ffn/linear_0/weight") for name in stored
        )
        widths[part] = stored[f"{part}/layer_0/ffn/linear_0/weight"][0]
    return WhisperSpec(
        vocab_size=vocab_size,
        d_model=size,
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_attention_heads=size // _HEAD_SIZE,
        decoder_attention_heads=size // _HEAD_SIZE,
        encoder_ffn_dim=widths["encoder"],
        decoder_ffn_dim=widths["decoder"],
        num_mel_bins=stored["encoder/conv1/weight"][1],
        max_source_positions=stored["encoder/position_encodings/encodings"][0],
        max_target_positions=stored["decoder/position_encodings/encodings"][0],
    )


def _places(
    spec: WhisperSpec, stored: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, tuple[str, slice]]]:
    """Each name, with the stored tensor and which of its rows."""
    yield "model.decoder.embed_tokens.weight", ("decoder/embeddings/weight", _ALL)
    for part in ("encoder", "decoder"):
        encodings = f"{part}/position_encodings/encodings"
        yield f"model.{part}.embed_positions.weight", (encodings, _ALL)
    for ours, theirs, rows in _modules(spec):
        weight, bias = ("gamma", "beta") if "norm" in theirs else ("weight", "bias")
        yield f"{ours}.weight", (f"{theirs}/{weight}", rows)
        if not ours.endswith("k_proj"):  # whose stored one is zero
            yield f"{ours}.bias", (f"{theirs}/{bias}", rows)


def _modules(spec: WhisperSpec) -> Iterator[tuple[str, str, slice]]:
    rows = [slice(part * spec.d_model, (part + 1) * spec.d_model) for part in range(3)]
    layers = {"encoder": spec.encoder_layers, "decoder": spec.decoder_layers}
    for part, count in layers.items():
        for index in range(count):
            ours, theirs = f"model.{part}.layers.{index}", f"{part}/layer_{index}"
            for which, name in zip(rows, ("q_proj", "k_proj", "v_proj"), strict=True):
                yield f"{ours}.self_attn.{name}", f"{theirs}/self_attention/linear_0", which
            yield f"{ours}.self_attn.out_proj", f"{theirs}/self_attention/linear_1", _ALL
            yield f"{ours}.self_attn_layer_norm", f"{theirs}/self_attention/layer_norm", _ALL
            yield f"{ours}.final_layer_norm", f"{theirs}/ffn/layer_norm", _ALL
            yield f"{ours}.fc1", f"{theirs}/ffn/linear_0", _ALL
            yield f"{ours}.fc2", f"{theirs}/ffn/linear_1", _ALL
            if part == "decoder":
                attention = f"{theirs}/attention"
                yield f"{ours}.encoder_attn.q_proj", f"{attention}/linear_0", _ALL
                yield f"{ours}.encoder_attn.k_proj", f"{attention}/linear_1", rows[0]
                yield f"{ours}.encoder_attn.v_proj", f"{attention}/linear_1", rows[1]
                yield f"{ours}.encoder_attn.out_proj", f"{attention}/linear_2", _ALL
                yield f"{ours}.encoder_attn_layer_norm", f"{attention}/layer_norm", _ALL
        yield f"model.{part}.layer_norm", f"{part}/layer_norm", _ALL
    yield "model.encoder.conv1", "encoder/conv1", _ALL
    yield "model.encoder.conv2", "encoder/conv2", _ALL


def log_mel_of(spec: WhisperSpec) -> LogMelSettings:
    """Returns how all Whispers read sound; the number of features is the model's."""
    frames, hop = 2 * spec.max_source_positions, 160
    return LogMelSettings(16000, 400, hop, spec.num_mel_bins, hop * frames)


def transcription_of(directory: Path, spec: WhisperSpec) -> Transcription:
    """Returns the tokens, by their texts in the tokenizer's file, and what the config suppresses.

    Raises:
        ExportError: a file is missing or damaged, or a token is.
    """
    path = directory / _TOKENIZER
    if not path.is_file():
        raise ExportError(f"{directory} has no {_TOKENIZER}, which has the model's tokens.")
    added = read_object(path).get("added_tokens") or []
    tokens = {str(one.get("content")): one.get("id") for one in added if isinstance(one, dict)}
    fields = read_object(directory / CONFIG)
    transcription = Transcription(
        start=_token(path, tokens, "<|startoftranscript|>"),
        end=_token(path, tokens, "<|endoftext|>"),
        no_timestamps=_token(path, tokens, "<|notimestamps|>"),
        suppress=token_ids(fields, "suppress_ids"),
        begin_suppress=token_ids(fields, "suppress_ids_begin"),
        alignment_heads=read_alignment_heads(directory / CONFIG, fields, spec),
        decoder_heads=spec.decoder_attention_heads,
    )
    if spec.vocab_size < _MULTILINGUAL:
        return transcription
    known = set(token_ids(fields, "lang_ids"))
    return replace(
        transcription,
        transcribe=_token(path, tokens, "<|transcribe|>"),
        translate=_token(path, tokens, "<|translate|>"),
        languages={text[2:-2]: token for text, token in tokens.items() if token in known},
    )


def _token(path: Path, tokens: Mapping[Any, Any], text: str) -> int:
    token = tokens.get(text)
    if type(token) is not int:
        raise ExportError(f"{path} has no token {text}; take it from the same model.")
    return token
