"""Random LoRA adapters, as PEFT writes them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from exporter.models.decoder import CausalLM
from exporter.models.spec import DecoderSpec

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def save_adapter(
    directory: Path,
    spec: DecoderSpec,
    seed: int,
    rank: int = 4,
    linears: Iterable[str] = LINEARS,
    dtype: torch.dtype = torch.float32,
    **fields: Any,
) -> Path:
    """An adapter of every linear of these names, of a decoder whose checkpoints have our names.

    Args:
        fields: of adapter_config.json, beside peft_type, r and lora_alpha.
    """
    with torch.device("meta"):
        model = CausalLM(spec)
    shapes = {
        path: tuple(module.weight.shape)
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and path.rpartition(".")[2] in linears
    }
    return write_adapter(directory, shapes, seed, rank, dtype, **fields)


def write_adapter(
    directory: Path,
    shapes: dict[str, tuple[int, ...]],
    seed: int,
    rank: int = 4,
    dtype: torch.dtype = torch.float32,
    **fields: Any,
) -> Path:
    """An adapter of linears of these shapes, (out_features, in_features) by path."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for path, (rows, columns) in shapes.items():
        start = f"base_model.model.{path}"
        a = torch.randn(rank, columns, generator=generator) * columns**-0.5
        b = torch.randn(rows, rank, generator=generator) * 0.1
        tensors |= {f"{start}.lora_A.weight": a.to(dtype), f"{start}.lora_B.weight": b.to(dtype)}
    directory.mkdir()
    save_file(tensors, directory / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 3 * rank, **fields}
    (directory / "adapter_config.json").write_text(json.dumps(config))
    return directory
