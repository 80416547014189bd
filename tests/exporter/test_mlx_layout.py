"""Checkpoints that MLX has converted compute what those that they were made of do."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.family_models import assert_same, case_of, reference_model, tokens_of
from support.loading import loaded
from support.packed_checkpoints import Tensors, rounded, words

from exporter.checkpoint import open_checkpoint
from exporter.checkpoint.mlx_layout import MlxLayout
from exporter.checkpoint.mlx_weights import MlxWeights
from exporter.checkpoint.safetensors_file import SafetensorsFile

PARTS = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
NORMS = ("input_layernorm", "post_attention_layernorm", "model.norm", "q_norm", "k_norm")


def converted(model_type: str, tensors: Tensors) -> Tensors:
    """What MLX's converter makes of them: experts stacked, filters turned, and norms plus 1."""
    letters = model_type in ("mixtral", "lfm2_moe")
    made = dict(tensors)
    for name in tensors:
        before, is_expert, rest = name.partition(".experts.0.")
        part = rest.removesuffix(".weight")
        if is_expert:
            each = [n for n in tensors if n.startswith(f"{before}.experts.") and n.endswith(rest)]
            own = {w: p for p, w in PARTS.items()}[part] if letters else part
            stack = torch.stack(
                [made.pop(f"{before}.experts.{i}.{rest}") for i in range(len(each))]
            )
            made[f"{before}.switch_mlp.{own}.weight"] = stack
        elif name.endswith(("conv.weight", "conv1d.weight")):
            made[name] = tensors[name].transpose(1, 2).contiguous()
        elif model_type.startswith("qwen3_") and name.endswith(tuple(f"{n}.weight" for n in NORMS)):
            made[name] = tensors[name] + 1
        elif model_type == "lfm2_moe" and ".feed_forward.w" in name:
            for part, letter in PARTS.items():
                if f".{letter}." in name:
                    made[name.replace(letter, part)] = made.pop(name)
    return made


@pytest.mark.parametrize("model_type", ["mixtral", "lfm2_moe", "qwen3_next", "qwen3_5_text"])
@torch.no_grad()
def test_a_converted_checkpoint(model_type: str, tmp_path: Path) -> None:
    reference = reference_model(case_of(model_type))
    reference.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    stored = load_file(path)
    changed = converted(model_type, stored)
    assert any(n not in changed or changed[n].shape != t.shape for n, t in stored.items())
    save_file(changed, path)
    tokens = tokens_of(reference)
    assert_same(loaded(open_checkpoint(tmp_path)).logits(tokens), reference(tokens).logits)


def test_experts_of_other_bits(tmp_path: Path) -> None:
    """The config has the sizes of all experts of a layer under MLX's own name."""
    theirs, ours = "model.layers.0.mlp.switch_mlp.up_proj", "model.layers.0.mlp.experts"
    experts = [rounded(8, 64, 8, 32, seed) for seed in range(3)]
    scales = torch.stack([one.scales for one in experts])
    stored = {
        f"{theirs}.weight": torch.stack([words(one.values, 8) for one in experts]).view(
            torch.uint32
        ),
        f"{theirs}.scales": scales,
        f"{theirs}.biases": -scales,
    }
    path = tmp_path / "model.safetensors"
    save_file(stored, path)
    config = {"bits": 4, "group_size": 64, theirs: {"bits": 8, "group_size": 32}}
    layout = MlxLayout(SafetensorsFile(path), "qwen3_moe")
    read = MlxWeights(layout, json.loads(json.dumps(config)), path, layout.modules)
    assert read.shapes() == {f"{ours}.{i}.up_proj.weight": (8, 64) for i in range(3)}
    for number, one in enumerate(experts):
        wanted = (one.values - 1).float() * one.scales.float()[:, one.groups]
        assert torch.allclose(read.tensor(f"{ours}.{number}.up_proj.weight"), wanted)
