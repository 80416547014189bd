"""Whisper's weights from CTranslate2's model.bin, in a directory of Hugging Face's form."""

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

_TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_HEADS = 64  # numbers of a head
_END, _START, _NO_TIMESTAMPS = 50256, 50257, 50362  # of the English models


def _read(data: bytes) -> Iterator[tuple[str, Any]]:
    """The variables of a file of version 6: names and arrays."""
    at = 4

    def text() -> str:
        nonlocal at
        (size,) = struct.unpack_from("<H", data, at)
        at += 2 + size
        return data[at - size : at - 1].decode()

    def number(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(form, data, at)
        at += struct.calcsize(form)
        return int(value)

    text()
    number("<I")
    for _ in range(number("<I")):
        name = text()
        shape = [number("<I") for _ in range(number("B"))]
        type = _TYPES[number("B")]
        size = number("<I")
        yield name, np.frombuffer(data, type, size // np.dtype(type).itemsize, at).reshape(shape)
        at += size


def _names(layers: int, size: int) -> Iterator[tuple[str, str, slice]]:
    """Hugging Face's names without .weight and .bias, CTranslate2's, and the rows of those."""
    rows = [slice(part * size, (part + 1) * size) for part in range(3)]
    whole = slice(None)
    for part in ("encoder", "decoder"):
        for index in range(layers):
            ours, theirs = f"model.{part}.layers.{index}", f"{part}/layer_{index}"
            for place, name in enumerate(("q_proj", "k_proj", "v_proj")):
                yield f"{ours}.self_attn.{name}", f"{theirs}/self_attention/linear_0", rows[place]
            yield f"{ours}.self_attn.out_proj", f"{theirs}/self_attention/linear_1", whole
            yield f"{ours}.self_attn_layer_norm", f"{theirs}/self_attention/layer_norm", whole
            yield f"{ours}.final_layer_norm", f"{theirs}/ffn/layer_norm", whole
            yield f"{ours}.fc1", f"{theirs}/ffn/linear_0", whole
            yield f"{ours}.fc2", f"{theirs}/ffn/linear_1", whole
            if part == "decoder":
                yield f"{ours}.encoder_attn.q_proj", f"{theirs}/attention/linear_0", whole
                yield f"{ours}.encoder_attn.k_proj", f"{theirs}/attention/linear_1", rows[0]
                yield f"{ours}.encoder_attn.v_proj", f"{theirs}/attention/linear_1", rows[1]
                yield f"{ours}.encoder_attn.out_proj", f"{theirs}/attention/linear_2", whole
                yield f"{ours}.encoder_attn_layer_norm", f"{theirs}/attention/layer_norm", whole
        yield f"model.{part}.layer_norm", f"{part}/layer_norm", whole
    yield "model.encoder.conv1", "encoder/conv1", whole
    yield "model.encoder.conv2", "encoder/conv2", whole


def write_checkpoint(stored: Path, directory: Path) -> Any:
    """Writes an English model, and returns transformers' model of it."""
    read = dict(_read((stored / "model.bin").read_bytes()))
    weights = {name: torch.from_numpy(array.astype("f4")) for name, array in read.items()}
    vocab_size, size = weights["decoder/embeddings/weight"].shape
    layers = sum(name.endswith("/ffn/linear_0/weight") for name in weights) // 2
    ends = {"pad_token_id": _END, "bos_token_id": _END, "eos_token_id": _END}
    parts = {
        f"{part}_{name}": value
        for part in ("encoder", "decoder")
        for name, value in {
            "layers": layers,
            "attention_heads": size // _HEADS,
            "ffn_dim": 4 * size,
        }.items()
    }
    sizes = {"vocab_size": vocab_size, "d_model": size, "decoder_start_token_id": _START}
    fields: dict[str, Any] = {**sizes, **ends, **parts}
    config = transformers.WhisperConfig(**fields)
    tensors = {
        "model.encoder.embed_positions.weight": weights["encoder/position_encodings/encodings"],
        "model.decoder.embed_positions.weight": weights["decoder/position_encodings/encodings"],
        "model.decoder.embed_tokens.weight": weights["decoder/embeddings/weight"],
        "proj_out.weight": weights["decoder/embeddings/weight"],
    }
    for ours, theirs, rows in _names(layers, size):
        weight, bias = ("gamma", "beta") if "norm" in theirs else ("weight", "bias")
        tensors[f"{ours}.weight"] = weights[f"{theirs}/{weight}"][rows]
        if not ours.endswith("k_proj"):
            tensors[f"{ours}.bias"] = weights[f"{theirs}/{bias}"][rows]
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.load_state_dict(tensors)
    model.save_pretrained(directory)
    transformers.WhisperFeatureExtractor().save_pretrained(directory)
    shutil.copy(stored / "tokenizer.json", directory)
    settings = json.loads((stored / "config.json").read_text())
    generation = {
        **{"decoder_start_token_id": _START, "no_timestamps_token_id": _NO_TIMESTAMPS, **ends},
        **{"suppress_tokens": settings["suppress_ids"], "max_length": 448},
        **{"begin_suppress_tokens": settings["suppress_ids_begin"]},
        **{"max_initial_timestamp_index": 50, "alignment_heads": settings["alignment_heads"]},
        **{"is_multilingual": False, "return_timestamps": False},
    }
    (directory / "generation_config.json").write_text(json.dumps(generation))
    model.generation_config = transformers.GenerationConfig(**generation)
    return model
