"""Weights that the quantizers' own libraries have packed are read as the floats they stand for.

`packed_by_libraries.safetensors` holds random integers, zero points and scales, and what AutoAWQ
0.2.9, GPTQModel 7.7.0 and compressed-tensors 0.20.0 made of them.
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from exporter.checkpoint.packed import (
    AwqPacking,
    CompressedPacking,
    GptqPacking,
    Packing,
    UnpackedWeights,
)
from exporter.checkpoint.safetensors_file import SafetensorsFile

STORED = load_file(Path(__file__).with_name("packed_by_libraries.safetensors"))
GROUP = 32
PACKINGS: dict[str, Packing] = {
    "awq": AwqPacking(GROUP),
    "gptq2": GptqPacking(2, GROUP, lowered=False),
    "gptq4": GptqPacking(4, GROUP, lowered=False),
    "gptq8": GptqPacking(8, GROUP, lowered=False),
    "compressed4": CompressedPacking(4, GROUP, words=True),
    "compressed8": CompressedPacking(8, GROUP, words=True),
}


@pytest.mark.parametrize("name", PACKINGS)
def test_what_a_library_packed(name: str, tmp_path: Path) -> None:
    packing = PACKINGS[name]
    suffixes = (packing.main, *packing.others)
    parts = {s: STORED[f"{name}.{s}"] for s in suffixes if f"{name}.{s}" in STORED}
    path = tmp_path / "model.safetensors"
    save_file({f"linear.{suffix}": tensor for suffix, tensor in parts.items()}, path)
    values, zeros, scales, groups = (
        STORED[f"{name}.{part}"] for part in ("values", "zeros", "group_scales", "groups")
    )
    wanted = (values.int() - zeros.int()[:, groups]).float() * scales.float()[:, groups]
    found = UnpackedWeights(SafetensorsFile(path), packing, tmp_path).tensor("linear.weight")
    assert torch.equal(found, wanted)
