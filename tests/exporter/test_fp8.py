"""Weights of 8-bit floats with scales: read as the floats that they stand for."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.loading import loaded
from support.packed_checkpoints import CONFIG, Tensors, assert_read
from torch import Tensor

from exporter.checkpoint import open_checkpoint
from exporter.checkpoint.fp8 import Fp8Weights, read_blocks
from exporter.checkpoint.safetensors_file import SafetensorsFile
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

BLOCK = (32, 48)
FP8 = {"quant_method": "fp8", "weight_block_size": [*BLOCK], "activation_scheme": "dynamic"}


def compressed(**weights: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, **weights}}}
    return dict(quant_method="compressed-tensors", format="float-quantized", config_groups=groups)


def weight_only(**weights: Any) -> dict[str, Any]:
    """As compressed-tensors has it where no activation is rounded."""
    return {**compressed(type="float", **weights), "format": "naive-quantized"}


def write(directory: Path, config: dict[str, Any], scales: Any, name: str) -> Tensors:
    """Saves a model whose linears are of 8 bits; returns the floats that it stands for."""
    random = torch.Generator().manual_seed(0)
    with torch.device("meta"):
        model = CausalLM(decoder_spec(CONFIG))
    floats, stored = {}, {}
    for key, parameter in model.named_parameters():
        tensor = torch.randn(parameter.shape, generator=random) * 0.2
        stored[key] = floats[key] = tensor
        if ".layers." in key and tensor.dim() == 2:
            scale = scales(tensor.shape, random)
            stored[key] = tensor.to(torch.float8_e4m3fn)
            numbers = scale.view(torch.float8_e8m0fnu) if scale.dtype == torch.uint8 else scale
            floats[key] = stored[key].float() * each(numbers.float(), tensor.shape)
            stored[key.replace("weight", name)] = scale
            stored[key.replace("weight", "input_scale")] = torch.ones(1)
    save_file(stored, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": config}))
    return floats


def each(scale: Tensor, shape: torch.Size) -> Tensor:
    """One scale for each number, found by its place."""
    if scale.numel() == 1:
        return scale.reshape(1, 1).expand(shape)
    if scale.shape[0] == shape[0]:
        return scale.reshape(-1, 1).expand(shape)
    rows, columns = torch.arange(shape[0]) // BLOCK[0], torch.arange(shape[1]) // BLOCK[1]
    return scale[rows][:, columns]


def in_blocks(shape: torch.Size, random: torch.Generator) -> Tensor:
    blocks = [-(-size // each) for size, each in zip(shape, BLOCK, strict=True)]
    return torch.rand(blocks, generator=random) + 0.1


def in_powers_of_two(shape: torch.Size, random: torch.Generator) -> Tensor:
    return in_blocks(shape, random).to(torch.float8_e8m0fnu)


def in_exponents(shape: torch.Size, random: torch.Generator) -> Tensor:
    return in_powers_of_two(shape, random).view(torch.uint8)


def in_rows(shape: torch.Size, random: torch.Generator) -> Tensor:
    return (torch.rand(shape[0], 1, generator=random) + 0.1).bfloat16()


def of_all(shape: torch.Size, random: torch.Generator) -> Tensor:
    return torch.rand(1, generator=random) + 0.1


@pytest.mark.parametrize(
    ("config", "scales", "name"),
    [
        (FP8, in_blocks, "weight_scale_inv"),
        (FP8, in_powers_of_two, "weight_scale_inv"),
        ({**FP8, "scale_fmt": "ue8m0"}, in_exponents, "weight_scale_inv"),
        ({**FP8, "weight_block_size": None}, of_all, "weight_scale_inv"),
        ({"quant_method": "fbgemm_fp8"}, in_rows, "weight_scale"),
        (compressed(strategy="channel"), in_rows, "weight_scale"),
        (compressed(strategy="tensor"), of_all, "weight_scale"),
        (compressed(strategy="block", block_structure=[*BLOCK]), in_blocks, "weight_scale"),
        (compressed(strategy="block", block_structure="32x48"), in_blocks, "weight_scale"),
        (weight_only(strategy="channel"), in_rows, "weight_scale"),
        (weight_only(strategy="block", block_structure=[*BLOCK]), in_blocks, "weight_scale"),
    ],
)
def test_fp8(tmp_path: Path, config: dict[str, Any], scales: Any, name: str) -> None:
    assert_read(tmp_path, write(tmp_path, config, scales, name))


@torch.no_grad()
def test_it_is_what_transformers_reads(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write(tmp_path, {**FP8, "weight_block_size": [32, 32]}, in_squares, "weight_scale_inv")
    path = tmp_path / "model.safetensors"
    tensors = {n: t for n, t in load_file(path).items() if not n.endswith("input_scale")}
    save_file(tensors, path, {"format": "pt"})
    asked = transformers.FineGrainedFP8Config(weight_block_size=(32, 32), dequantize=True)
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=asked, dtype=torch.float32
    )
    tokens = torch.arange(1, 21)[None]
    found = loaded(open_checkpoint(tmp_path)).logits(tokens)
    torch.testing.assert_close(found, reference(tokens).logits, rtol=0, atol=1e-4)


def in_squares(shape: torch.Size, random: torch.Generator) -> Tensor:
    return torch.rand(shape[0] // 32, shape[1] // 32, generator=random) + 0.1


def test_scales_that_are_missing_or_do_not_fit(tmp_path: Path) -> None:
    write(tmp_path, FP8, in_blocks, "weight_scale_inv")
    path, name = tmp_path / "model.safetensors", "model.layers.0.mlp.up_proj.weight"
    tensors = load_file(path)
    scales = tensors.pop(f"{name}_scale_inv")
    for changed, said in (
        ({}, "has neither of weight_scale_inv and weight_scale beside it"),
        ({f"{name}_scale_inv": scales, f"{name}_scale": scales.clone()}, "has both of weight_sc"),
        ({f"{name}_scale_inv": scales[:, :1].contiguous()}, "does not fit"),
    ):
        save_file({**tensors, **changed}, path)
        with pytest.raises(ExportError, match=said):
            open_checkpoint(tmp_path)


def test_scales_of_blocks_that_the_config_does_not_have(tmp_path: Path) -> None:
    """Blocks of another size than those of 128, or scales of a type that means nothing."""
    for said in ({}, {"weight_block_size": None}):
        config = {"quant_method": "fp8", **said}
        write(tmp_path, config, in_blocks, "weight_scale_inv")
        with pytest.raises(ExportError, match="as quantization_config has it; take weights and"):
            open_checkpoint(tmp_path)
    write(tmp_path, FP8, lambda *of: in_blocks(*of).ceil().int(), "weight_scale_inv")
    with pytest.raises(ExportError, match=r"is torch.int32, but scales are floats, or exponents"):
        open_checkpoint(tmp_path)


def test_groups_with_blocks_of_their_own(tmp_path: Path) -> None:
    """Of 300 rows either size of blocks makes 3, but not of the same rows."""
    groups = {
        "a": {"targets": ["Linear"], "weights": {"block_structure": [100, 30]}},
        "b": {"targets": ["re:.*up_proj"], "weights": {"block_structure": [128, 32]}},
        "c": {"targets": ["lm_head"], "weights": {"group_size": 32}},
    }
    blocks = {"down_proj": (100, 30), "mlp.up_proj": (128, 32), "lm_head": (1, 32)}
    stored, floats = {}, {}
    for name, block in blocks.items():
        values = torch.randn(300, 90).to(torch.float8_e4m3fn)
        scales = torch.rand(-(-300 // block[0]), 3) + 0.1
        stored |= {f"{name}.weight": values, f"{name}.weight_scale": scales}
        rows, columns = torch.arange(300) // block[0], torch.arange(90) // block[1]
        floats[f"{name}.weight"] = values.float() * scales[rows][:, columns]
    path, config = tmp_path / "model.safetensors", {**compressed(), "config_groups": groups}
    save_file(stored, path)
    read = Fp8Weights(SafetensorsFile(path), read_blocks(path, config), path)
    assert all(torch.equal(read.tensor(name), wanted) for name, wanted in floats.items())
