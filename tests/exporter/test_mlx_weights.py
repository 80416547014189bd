"""Weights that MLX has quantized: the floats that they stand for."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.packed_checkpoints import CONFIG, Tensors, assert_read, rounded, words

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

GROUP = 32
OTHER = "model.layers.0.mlp.down_proj"


def write(directory: Path, bits: int, more: dict[str, Any] | None = None) -> Tensors:
    """Saves a model whose matrices are of that many bits, and one of 8; returns its floats."""
    with torch.device("meta"):
        model = CausalLM(decoder_spec(CONFIG))
    floats, stored = {}, {}
    for index, (name, parameter) in enumerate(model.named_parameters()):
        module = name.removesuffix(".weight")
        if parameter.dim() < 2:
            floats[name] = stored[name] = torch.rand(parameter.shape)
            continue
        own = 8 if module == OTHER else bits
        weight = rounded(*parameter.shape, own, GROUP, index)
        biases = -weight.scales.float() * torch.rand(weight.scales.shape) * 2**own
        values = weight.values * weight.scales.float()[:, weight.groups]
        floats[name] = values + biases[:, weight.groups]
        stored[name] = words(weight.values, own).view(torch.uint32)
        stored |= {f"{module}.scales": weight.scales, f"{module}.biases": biases}
    sizes = {"group_size": GROUP, "bits": bits, OTHER: {"group_size": GROUP, "bits": 8}}
    sizes |= more or {}
    save_file(stored, directory / "model.safetensors")
    config = {**CONFIG, "quantization": sizes, "quantization_config": sizes}
    (directory / "config.json").write_text(json.dumps(config))
    return floats


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_mlx(tmp_path: Path, bits: int) -> None:
    assert_read(tmp_path, write(tmp_path, bits))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"mode": "mxfp4", "group_size": 64},
            "'group_size': 64, 'mode': 'mxfp4'}; supported are 2, 3, 4, 5, 6, 8 bits of the mode",
        ),
        ({"mode": "mxfp4"}, ".scales are not bytes, as the mode mxfp4 of lm_head."),
        ({"mode": "fp3"}, "'mode': 'fp3'}; supported are 2, 3, 4, 5, 6, 8 bits of the mode"),
        ({"mode": ["mxfp4"]}, "'mode': ['mxfp4']}; supported are 2, 3, 4, 5, 6, 8 bits of"),
        ({"bits": 7}, "'group_size': 32, 'mode': 'affine'}; supported are 2, 3, 4, 5, 6, 8 bits"),
        ({"group_size": 64}, "bits in groups of 64 needs"),
        ({"group_size": None}, "has the group_size None, not a number of inputs."),
    ],
)
def test_what_is_not_read(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    write(tmp_path, 4, more)
    with pytest.raises(ExportError) as error:
        open_checkpoint(tmp_path)
    assert said in str(error.value)


def test_a_part_that_is_missing(tmp_path: Path) -> None:
    write(tmp_path, 4)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    del tensors[f"{OTHER}.biases"]
    save_file(tensors, path)
    with pytest.raises(
        ExportError, match=f"{OTHER}.biases is None, where {OTHER}.weight of 8 bits"
    ):
        open_checkpoint(tmp_path)
