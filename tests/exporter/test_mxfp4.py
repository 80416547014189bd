"""MXFP4: experts in 4 bits with a power of two for 32 numbers, read as floats."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.family_models import assert_same, case_of, reference_model, tokens_of
from torch import Tensor

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from quant.weight_type import INT8_GROUPS

integrations = pytest.importorskip("transformers.integrations.mxfp4")

CASE = case_of("gpt_oss", "mxfp4")


def packed(generator: torch.Generator, *shape: int) -> dict[str, Tensor]:
    """Random blocks and scales of weights (experts, rows, columns)."""
    experts, rows, columns = shape
    groups = experts, rows, columns // 32
    return {
        "_blocks": torch.randint(256, (*groups, 16), generator=generator, dtype=torch.uint8),
        "_scales": torch.randint(121, 126, groups, generator=generator, dtype=torch.uint8),
    }


@torch.no_grad()
def written(directory: Path) -> tuple[Any, dict[str, Tensor]]:
    """A checkpoint with packed experts, and transformers' model with what it makes of them."""
    reference = reference_model(CASE)
    generator = torch.Generator().manual_seed(5)
    tensors = {name: tensor.contiguous() for name, tensor in reference.state_dict().items()}
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, columns, rows = tensors.pop(name).shape
        parts = packed(generator, experts, rows, columns)
        floats = integrations.convert_moe_packed_tensors(
            parts["_blocks"], parts["_scales"], dtype=torch.float32
        )
        reference.get_parameter(name).copy_(floats)
        tensors |= {name + ending: tensor for ending, tensor in parts.items()}
    save_file(tensors, directory / "model.safetensors")
    fields = reference.config.to_dict() | {"quantization_config": {"quant_method": "mxfp4"}}
    (directory / "config.json").write_text(json.dumps(fields))
    return reference, tensors


@torch.no_grad()
def test_packed_experts_are_those_of_transformers(tmp_path: Path) -> None:
    reference, _ = written(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    with torch.device("meta"):
        model = CausalLM(checkpoint.config).eval()
    checkpoint.check(model)
    checkpoint.load_into(model, "")
    gate = model.model.layers[1].mlp.experts[2].gate_proj.weight
    whole = reference.model.layers[1].mlp.experts.gate_up_proj
    assert torch.equal(gate, whole[2].T[::2])
    tokens = tokens_of(reference)
    assert_same(model.logits(tokens), reference(tokens).logits)


@torch.no_grad()
def test_integers_are_kept(tmp_path: Path) -> None:
    reference, tensors = written(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    block = "model.layers.1.mlp.experts"
    whole = reference.get_parameter(f"{block}.gate_up_proj")
    for part, rows in (("gate_proj", slice(0, None, 2)), ("up_proj", slice(1, None, 2))):
        name = f"{block}.2.{part}.weight"
        kept = checkpoint.integers(name)
        assert kept is not None and kept.type == checkpoint.kept_type(name) == INT8_GROUPS
        assert checkpoint.source_type(name) == "MXFP4"
        floats = kept.values.unflatten(1, (-1, 32)) * kept.scales[..., None]
        assert torch.equal(floats.flatten(1), whole[2].T[rows])
    assert checkpoint.kept_type("model.layers.1.mlp.router.weight") is None
    tensors[f"{block}.gate_up_proj_scales"][2, 1, 0] = 90  # 2^-38 is 0 in float16
    save_file(tensors, tmp_path / "model.safetensors")
    again = open_checkpoint(tmp_path)
    kept_types = [again.kept_type(f"{block}.2.{part}.weight") for part in ("gate_proj", "up_proj")]
    assert kept_types == [None, None]


def test_blocks_without_their_scales(tmp_path: Path) -> None:
    _, tensors = written(tmp_path)
    name = "model.layers.1.mlp.experts.down_proj"
    tensors[f"{name}_scales"] = tensors[f"{name}_scales"][:, :-1].contiguous()
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ExportError) as error:
        open_checkpoint(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: {name}_scales is (7, 63, 3), which does not fit {name}_blocks "
        "(7, 64, 3, 16); download the files again."
    )
