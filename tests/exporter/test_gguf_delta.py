"""The gated delta rule in GGUF files: integers that stay, and layers of more tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from support.family_data import GgufForm
from support.family_models import Case, assert_same, reference_model, tokens_of
from support.gguf_models import write_model
from support.loading import loaded

from exporter.checkpoint import open_checkpoint

SHAPE: dict[str, Any] = dict(
    hidden_size=64,
    intermediate_size=96,
    head_dim=32,
    linear_key_head_dim=16,
    linear_num_key_heads=2,
    linear_num_value_heads=6,
    num_hidden_layers=2,
    layer_types=["linear_attention", "full_attention"],
)
NAMES = {
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
}


def write(path: Path, value_head_dim: int, more: dict[str, Any], **form: Any) -> Any:
    case = Case("qwen3_5_text", "gguf", {**SHAPE, "linear_value_head_dim": value_head_dim})
    reference = reference_model(case)
    more = {
        "ssm.inner_size": 6 * value_head_dim,
        "rope.dimension_count": 8,
        "full_attention_interval": 2,
        **more,
    }
    write_model(path, reference, GgufForm("qwen35", NAMES, more, **form))
    return reference


@pytest.mark.parametrize("value_head_dim", [64, 16])
def test_integers_move_with_their_heads(value_head_dim: int, tmp_path: Path) -> None:
    """Those that stay are the floats that are read; groups that heads would cut do not stay."""
    path = tmp_path / "model.gguf"
    write(path, value_head_dim, {}, type=Type.Q8_0)
    weights = open_checkpoint(path).weights
    kept = [name for name in weights.shapes() if weights.kept_type(name) is not None]
    out = "model.layers.0.linear_attn.out_proj.weight"
    assert (out in kept) == (value_head_dim == 64)
    assert len([name for name in kept if "linear_attn" in name]) == 4 + (out in kept)
    for name in kept:
        made = weights.integers(name)
        floats = made.values.unflatten(-1, (-1, 32)) * made.scales[..., None]
        assert torch.equal(floats.flatten(-2), weights.tensor(name))


def test_layers_of_more_tokens_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    more = {"block_count": 3, "nextn_predict_layers": 1}
    head = {
        f"blk.2.{name}.weight": np.ones((64, 64), np.float32)
        for name in ("nextn.eh_proj", "attn_q")
    }
    reference = write(
        path, 16, {**more, "attention.recurrent_layers": [True, False, False]}, factors=head
    )
    checkpoint, tokens = open_checkpoint(path), tokens_of(reference)
    assert checkpoint.left_out == {"mtp": 2}
    with torch.no_grad():
        assert_same(loaded(checkpoint).logits(tokens), reference(tokens).logits)
