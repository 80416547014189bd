"""Whisper's weights in CTranslate2's form: the same tensors and tokens as in Hugging Face's."""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from support import hearing_models as models
from torch import Tensor

from exporter.catalogue.hearing import is_hearing
from exporter.errors import ExportError
from exporter.hearing.ctranslate2 import WhisperTensors, log_mel_of, transcription_of
from exporter.hearing.log_mel import read_log_mel
from exporter.hearing.pipeline import load, open_whisper
from exporter.hearing.transcription import read_transcription

pytest.importorskip("transformers")
_CODES = {torch.float32: 0, torch.int8: 1, torch.float16: 4}


def text(value: str) -> bytes:
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def variable(name: str, tensor: Tensor) -> bytes:
    data = tensor.numpy().tobytes()
    shape = struct.pack(f"<B{tensor.dim()}I", tensor.dim(), *tensor.shape)
    return text(name) + shape + struct.pack("<BI", _CODES[tensor.dtype], len(data)) + data


def model_bin(tensors: dict[str, Tensor], version: int = 6, kind: str = "WhisperSpec") -> bytes:
    head = struct.pack("<I", version) + text(kind) + struct.pack("<II", 3, len(tensors))
    return head + b"".join(variable(*item) for item in tensors.items())


def fused(weights: dict[str, Tensor], layers: dict[str, int]) -> dict[str, Tensor]:
    """CTranslate2's tensors of Hugging Face's."""
    found: dict[str, Tensor] = {
        "decoder/embeddings/weight": weights["model.decoder.embed_tokens.weight"]
    }

    def put(theirs: str, *ours: str) -> None:
        is_norm = "norm" in theirs
        names = (
            {"weight": "gamma", "bias": "beta"} if is_norm else {"weight": "weight", "bias": "bias"}
        )
        for end, name in names.items():
            parts = [
                weights.get(f"{one}.{end}", torch.zeros(len(weights[f"{one}.weight"])))
                for one in ours
            ]
            found[f"{theirs}/{name}"] = torch.cat(parts)

    for part, count in layers.items():
        encodings = weights[f"model.{part}.embed_positions.weight"]
        found[f"{part}/position_encodings/encodings"] = encodings
        put(f"{part}/layer_norm", f"model.{part}.layer_norm")
        for index in range(count):
            theirs, ours = f"{part}/layer_{index}", f"model.{part}.layers.{index}"
            three = [f"{ours}.self_attn.{name}_proj" for name in "qkv"]
            put(f"{theirs}/self_attention/linear_0", *three)
            put(f"{theirs}/self_attention/linear_1", f"{ours}.self_attn.out_proj")
            put(f"{theirs}/self_attention/layer_norm", f"{ours}.self_attn_layer_norm")
            put(f"{theirs}/ffn/layer_norm", f"{ours}.final_layer_norm")
            put(f"{theirs}/ffn/linear_0", f"{ours}.fc1")
            put(f"{theirs}/ffn/linear_1", f"{ours}.fc2")
            if part == "decoder":
                cross = f"{ours}.encoder_attn"
                put(f"{theirs}/attention/linear_0", f"{cross}.q_proj")
                put(f"{theirs}/attention/linear_1", f"{cross}.k_proj", f"{cross}.v_proj")
                put(f"{theirs}/attention/linear_2", f"{cross}.out_proj")
                put(f"{theirs}/attention/layer_norm", f"{cross}_layer_norm")
    for conv in ("conv1", "conv2"):
        put(f"encoder/{conv}", f"model.encoder.{conv}")
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint, and the same in CTranslate2's form."""
    directory = tmp_path_factory.mktemp("whisper")
    heads = {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "d_model": 64}
    model = models.write_whisper(directory, **heads)
    other = tmp_path_factory.mktemp("converted")
    (other / "model.bin").write_bytes(model_bin(fused(model.state_dict(), _LAYERS)))
    shutil.copy(directory / "tokenizer.json", other)
    generation = json.loads((directory / "generation_config.json").read_text())
    config = {
        "suppress_ids": generation["suppress_tokens"],
        "suppress_ids_begin": generation["begin_suppress_tokens"],
        "alignment_heads": generation["alignment_heads"],
        "lang_ids": [models.ENGLISH, models.GERMAN],
    }
    (other / "config.json").write_text(json.dumps(config))
    return directory, other


_LAYERS = {"encoder": 2, "decoder": 3}


def test_tensors_and_sizes_are_the_same(both: tuple[Path, Path]) -> None:
    right, found = (open_whisper(directory) for directory in both)
    assert found.config == right.config and is_hearing(both[1])
    expected, got = load(right).state_dict(), load(found).state_dict()
    assert expected.keys() == got.keys()
    assert all(torch.equal(tensor, got[name]) for name, tensor in expected.items())


def test_settings_are_the_same(both: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    right, found = both
    spec = open_whisper(found).config
    assert log_mel_of(spec) == read_log_mel(right)
    expected = read_transcription(right, spec)
    monkeypatch.setattr("exporter.hearing.ctranslate2._MULTILINGUAL", spec.vocab_size)
    assert transcription_of(found, spec) == expected


def test_rows_of_int8_and_halves(both: tuple[Path, Path], tmp_path: Path) -> None:
    """As CTranslate2 stores them: numbers times a scale for each row."""
    path = tmp_path / "model.bin"
    tensors = fused(open_state(both[0]), _LAYERS)
    name = "decoder/layer_1/ffn/linear_0/weight"
    weight = tensors[name]
    scale = 127 / weight.abs().amax(1)
    stored = (weight * scale[:, None]).round().to(torch.int8)
    half = tensors["encoder/conv1/weight"].half()
    changed = {**tensors, name: stored, name + "_scale": scale, "encoder/conv1/weight": half}
    path.write_bytes(model_bin(changed))
    read = WhisperTensors(path)
    error = (read.tensor("model.decoder.layers.1.fc1.weight") - weight).abs().amax(1)
    assert bool((error <= 0.51 / scale).all())
    assert read.dtype("model.decoder.layers.1.fc1.weight") is torch.float32
    assert torch.equal(read.tensor("model.encoder.conv1.weight"), half)


def open_state(directory: Path) -> dict[str, Tensor]:
    weights = open_whisper(directory).weights
    return {name: weights.tensor(name).float() for name in weights.shapes()}


def test_what_is_refused(both: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    data = (both[1] / "model.bin").read_bytes()
    tensors = fused(open_state(both[0]), _LAYERS)
    missing = {name: one for name, one in tensors.items() if name != "decoder/embeddings/weight"}
    refused: dict[str, Any] = {
        "is cut off or damaged": data[:30],
        "is damaged at": data[:-8],
        "has version 5 of CTranslate2's format": model_bin(tensors, version=5),
        "is a TransformerSpec, but must be a WhisperSpec": model_bin({}, kind="TransformerSpec"),
        "lacks 'decoder/embeddings/weight'": model_bin(missing),
        "is empty": b"",
    }
    for sentence, content in refused.items():
        path.write_bytes(content)
        with pytest.raises(ExportError, match=sentence):
            WhisperTensors(path)
    shutil.copy(both[1] / "config.json", tmp_path)
    with pytest.raises(ExportError, match=r"has no tokenizer\.json"):
        transcription_of(tmp_path, open_whisper(both[1]).config)
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": []}')
    with pytest.raises(ExportError, match="has no token <|startoftranscript|>"):
        transcription_of(tmp_path, open_whisper(both[1]).config)
