"""GGUF files of tiny models, written by the `gguf` package as llama.cpp's converter would."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFValueType
from torch import Tensor

COMMON = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
_TYPES = {
    bool: GGUFValueType.BOOL,
    int: GGUFValueType.UINT32,
    float: GGUFValueType.FLOAT32,
    str: GGUFValueType.STRING,
    bytes: GGUFValueType.STRING,
}
Stored = tuple[np.ndarray, GGMLQuantizationType]


def metadata_of(
    architecture: str, config: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What the converter writes of a config.json.

    Args:
        names: the architecture's own keys, behind its name and a dot, with config.json's fields.
    """
    fields = {key: name for key, name in COMMON.items() if name in config} | dict(names or {})
    stored = {f"{architecture}.{key}": config[name] for key, name in fields.items()}
    return {"general.architecture": architecture, **stored}


def stored_tensors(
    architecture: str,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    type: GGMLQuantizationType = GGMLQuantizationType.F32,
    pairs_rotate: bool = False,
) -> dict[str, Stored]:
    """Tensors by their Hugging Face names as the converter stores them: matrices of that type,
    vectors in float32."""
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[architecture], config["num_hidden_layers"])
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    stored: dict[str, Stored] = {}
    for name, tensor in tensors.items():
        part = name.split(".")[-2]
        if pairs_rotate and part in heads:
            tensor = _pairs_from_halves(tensor, config[heads[part]])
        matrix = tensor.ndim == 2 and part not in ("conv1d", "conv")
        of = type if matrix else GGMLQuantizationType.F32
        key = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert key is not None, name
        stored[key] = gguf.quantize(tensor.float().numpy(), of), of
    return stored


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Stored]) -> Path:
    """Writes one file, each value by its Python type."""
    writer = gguf.GGUFWriter(path, "")
    writer.kv_data[0].clear()  # the writer's own general.architecture
    for key, value in metadata.items():
        if isinstance(value, list):
            inner = _TYPES[type(value[0])]
            if inner is GGUFValueType.UINT32:
                inner = GGUFValueType.INT32
            writer.add_key_value(key, value, GGUFValueType.ARRAY, inner)
        else:
            writer.add_key_value(key, value, _TYPES[type(value)])
    for key, (data, of) in tensors.items():
        writer.add_tensor(key, data, raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def llama3_factors(head_dim: int, theta: float, scaling: Mapping[str, Any]) -> Tensor:
    """By how much llama3's scaling divides each frequency: what is stored as rope_freqs.weight."""
    wavelengths = 2 * torch.pi * theta ** (torch.arange(0, head_dim, 2) / head_dim)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    smooth = (original / wavelengths - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    long = torch.where(wavelengths > original / low, factor, between)
    return torch.where(wavelengths < original / high, 1.0, long)


def _pairs_from_halves(tensor: Tensor, heads: int) -> Tensor:
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape)
