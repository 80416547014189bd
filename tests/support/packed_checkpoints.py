"""Checkpoints of packed integers, packed bit by bit as each method's format describes it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from exporter.checkpoint import open_checkpoint
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AUTO_ROUND = {"quant_method": "auto-round", "bits": 4, "group_size": 32}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32}
WEIGHTS = {"num_bits": 4, "type": "int", "group_size": 32}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {"group_0": {"weights": WEIGHTS}},
}
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 32,
}
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the columns in a word, from its lowest bits on
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Rounded:
    """A weight as integers: values and zeros are unsigned; groups (in_features,)."""

    values: Tensor
    zeros: Tensor
    scales: Tensor
    groups: Tensor

    def floats(self) -> Tensor:
        zeros, scales = self.zeros[:, self.groups], self.scales.float()[:, self.groups]
        return (self.values - zeros).float() * scales


def rounded(rows: int, columns: int, bits: int, group_size: int, seed: int) -> Rounded:
    random = torch.Generator().manual_seed(seed)
    each = columns if group_size == -1 else group_size
    groups = torch.arange(columns) // each
    count = int(groups[-1]) + 1
    return Rounded(
        torch.randint(0, 2**bits, (rows, columns), generator=random),
        torch.randint(1, 2**bits, (rows, count), generator=random),
        (torch.rand(rows, count, generator=random) * 0.02 + 0.001).half(),
        groups,
    )


def words(values: Tensor, bits: int, order: tuple[int, ...] | None = None) -> Tensor:
    """Unsigned integers (rows, n) as int32 words (rows, n * bits / 32)."""
    each = 32 // bits
    order = order or tuple(range(each))
    packed = []
    for row in values.tolist():
        packed.append([])
        for start in range(0, len(row), each):
            word = sum(row[start + place] << (bits * index) for index, place in enumerate(order))
            packed[-1].append(word - 2**32 if word >= 2**31 else word)
    return torch.tensor(packed, dtype=torch.int32)


def gptq(weight: Rounded, bits: int, offset: int, order: Tensor | None) -> Tensors:
    parts = {
        "qweight": words(weight.values.T.contiguous().T, bits).T.contiguous(),
        "qzeros": words((weight.zeros.T - offset) % 2**bits, bits),
        "scales": weight.scales.T.contiguous(),
    }
    return parts if order is None else parts | {"g_idx": weight.groups.int()}


def awq(weight: Rounded) -> Tensors:
    return {
        "qweight": words(weight.values.T, 4, AWQ_ORDER),
        "qzeros": words(weight.zeros.T, 4, AWQ_ORDER),
        "scales": weight.scales.T.contiguous(),
    }


def compressed(weight: Rounded, bits: int, packed: bool, symmetric: bool) -> Tensors:
    middle = 2 ** (bits - 1)
    parts: Tensors = {"weight_scale": weight.scales.float()}
    if packed:
        parts["weight_packed"] = words(weight.values, bits)
        parts["weight_shape"] = torch.tensor(weight.values.shape)
    else:
        parts["weight"] = (weight.values - middle).to(torch.int8)
    if symmetric:
        return parts
    if packed:
        return parts | {"weight_zero_point": words(weight.zeros.T, bits).T.contiguous()}
    return parts | {"weight_zero_point": (weight.zeros - middle).to(torch.int8)}


def write(directory: Path, config: dict[str, Any], pack: Callable[[int, int, int], Any]) -> Tensors:
    """Saves a model with packed linears; returns the floats that it stands for."""
    with torch.device("meta"):
        model = CausalLM(decoder_spec(CONFIG))
    floats, stored = {}, {}
    for index, (name, parameter) in enumerate(model.named_parameters()):
        random = torch.Generator().manual_seed(index)
        floats[name] = stored[name] = torch.rand(parameter.shape, generator=random)
        if ".layers." in name and parameter.dim() == 2:
            weight, parts = pack(*parameter.shape, index)
            floats[name] = weight.floats()
            del stored[name]
            module = name.removesuffix(".weight")
            stored |= {f"{module}.{suffix}": tensor for suffix, tensor in parts.items()}
    save_file({name: t.contiguous() for name, t in stored.items()}, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": config}))
    return floats


def assert_read(directory: Path, floats: Tensors) -> None:
    checkpoint = open_checkpoint(directory)
    with torch.device("meta"):
        checkpoint.check(CausalLM(checkpoint.config))
    for name, wanted in floats.items():
        assert torch.equal(checkpoint.tensor(name).float(), wanted), name


def symmetric(weight: Rounded, bits: int) -> Rounded:
    middle = torch.full_like(weight.zeros, 2 ** (bits - 1))
    return Rounded(weight.values, middle, weight.scales, weight.groups)
