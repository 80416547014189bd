"""Weights that the quantizers' own libraries have packed are read as the floats they stand for.

`packed_by_libraries.safetensors` holds random integers, zero points and scales, and what AutoAWQ
0.2.9, GPTQModel 7.7.0 and compressed-tensors 0.20.0 made of them. It also holds what MLX 0.32.4,
AutoRound 0.16.1 and bitsandbytes 0.50.2 made of random floats, and what they make of it again, on a
CPU.
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from exporter.checkpoint.mlx_weights import MlxWeights
from exporter.checkpoint.nf4 import Nf4Weights
from exporter.checkpoint.packed import UnpackedWeights
from exporter.checkpoint.packed_config import read_packing
from exporter.checkpoint.packings import AwqPacking, CompressedPacking, GptqPacking, Packing
from exporter.checkpoint.safetensors_file import SafetensorsFile
from exporter.errors import ExportError

STORED = load_file(Path(__file__).with_name("packed_by_libraries.safetensors"))
GROUP = 32
AUTO_ROUND = ["auto_round", "auto_round:auto_gptq"]
MLX_FLOATS = [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]
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
    stored = SafetensorsFile(path)
    found = UnpackedWeights(stored, lambda _: packing, tmp_path).tensor("linear.weight")
    assert torch.equal(found, wanted)


def save(name: str, path: Path) -> SafetensorsFile:
    """Saves what a library made, as the weight of one layer."""
    parts = {k.removeprefix(name): STORED[k] for k in STORED if k.startswith(f"{name}.")}
    del parts[".floats"]
    save_file({f"linear{suffix}": tensor for suffix, tensor in parts.items()}, path)
    return SafetensorsFile(path)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_what_mlx_packed(bits: int, tmp_path: Path) -> None:
    stored = save(f"mlx{bits}", tmp_path / "model.safetensors")
    weights = MlxWeights(stored, {"bits": bits, "group_size": GROUP}, tmp_path)
    wanted = STORED[f"mlx{bits}.floats"]
    assert weights.shapes() == {"linear.weight": tuple(wanted.shape)}
    torch.testing.assert_close(weights.tensor("linear.weight"), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", AUTO_ROUND)
def test_what_auto_round_packed(layout: str, tmp_path: Path) -> None:
    stored = save(layout, tmp_path / "model.safetensors")
    config = {"quant_method": "auto-round", "bits": 4, "group_size": GROUP, "sym": False}
    packing = read_packing(tmp_path, {"quantization_config": {**config, "packing_format": layout}})
    assert packing is not None
    found = UnpackedWeights(stored, packing, tmp_path).tensor("linear.weight")
    wanted = STORED[f"{layout}.floats"]  # which it computes in float16
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=0)


@pytest.mark.parametrize(("mode", "bits", "size"), MLX_FLOATS)
def test_floats_that_mlx_packed(mode: str, bits: int, size: int, tmp_path: Path) -> None:
    stored = save(mode, tmp_path / "model.safetensors")
    config = {"bits": bits, "group_size": size, "mode": mode}
    weights = MlxWeights(stored, config, tmp_path)
    assert torch.equal(weights.tensor("linear.weight"), STORED[f"{mode}.floats"])


@pytest.mark.parametrize("storage", [torch.uint8, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", ["nf4", "nf4_nested", "fp4_nested"])
def test_what_bitsandbytes_packed(name: str, storage: torch.dtype, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {key: save(name, path).tensor(key) for key in save(name, path).shapes()}
    packed = tensors["linear.weight"].flatten().view(storage)  # as bnb_4bit_quant_storage has it
    save_file({**tensors, "linear.weight": packed[:, None].clone()}, path)
    weights = Nf4Weights(SafetensorsFile(path), tmp_path)
    wanted = STORED[f"{name}.floats"]
    assert weights.shapes() == {"linear.weight": tuple(wanted.shape)}
    assert torch.equal(weights.tensor("linear.weight"), wanted.float())


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("absmax", "linear.weight.absmax is None, where a weight of"),
        ("quant_state.bitsandbytes__nf4", "linear.weight has no quant_state.bitsandbytes__nf4 or"),
    ],
)
def test_parts_of_nf4_that_are_missing(part: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save("nf4_nested", path)
    stored = load_file(path)
    del stored[f"linear.weight.{part}"]
    save_file(stored, path)
    with pytest.raises(ExportError, match=said):
        Nf4Weights(SafetensorsFile(path), tmp_path)
