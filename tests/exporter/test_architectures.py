"""Every architecture goes through the whole export, with shapes that are multiples of nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.exported import export_for_tests, feed
from support.tiers import soaked

from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.options import ExportOptions
from quant.scheme import Scheme

SHAPE: dict[str, Any] = dict(
    vocab_size=512,
    hidden_size=72,
    intermediate_size=100,
    num_hidden_layers=1,
    num_attention_heads=6,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
)
CASES: dict[str, tuple[dict[str, Any], Scheme]] = {
    "llama, biases": (
        dict(model_type="llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
        Scheme("rtn4", 64, 4),
    ),
    "mistral, one key head": (
        dict(model_type="mistral", num_key_value_heads=1, head_dim=16, sliding_window=None),
        Scheme("rtn8"),
    ),
    "qwen2": (dict(model_type="qwen2", tie_word_embeddings=False), Scheme("rtn4")),
    "qwen3": (dict(model_type="qwen3", head_dim=20, tie_word_embeddings=True), Scheme("rtn4")),
    "smollm3": (
        dict(model_type="smollm3", num_hidden_layers=2, no_rope_layers=[1, 0]),
        Scheme("none"),
    ),
}


def write_checkpoint(directory: Path, config: dict[str, Any], tokenizer: Path) -> None:
    """Random weights of every kind that the config asks for, norms and biases too."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "tokenizer.model").symlink_to(tokenizer)
    model = CausalLM(decoder_spec(config))
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, parameter in model.named_parameters():
        spread = torch.randn(parameter.shape, generator=generator)
        centre = 1.0 if "norm" in name else 0.0
        tensors[name] = centre + (0.3 if parameter.dim() == 1 else 0.12) * spread
    save_file(tensors, directory / "model.safetensors")


@pytest.mark.check
@pytest.mark.parametrize(
    "case", ["llama, biases", *soaked(["smollm3", "mistral, one key head", "qwen2", "qwen3"])]
)
def test_an_architecture_exports(
    case: str, shared_data: Path, calibration_text: Path, tmp_path: Path
) -> None:
    fields, scheme = CASES[case]
    directory = tmp_path / "checkpoint"
    tokenizer = shared_data / "stories260K" / "tokenizer.model"
    config = {**SHAPE, **fields}
    write_checkpoint(directory, config, tokenizer)
    exported = export_for_tests(
        ExportOptions(
            model=str(directory),
            out=tmp_path / "model.pte",
            scheme=scheme,
            calibration=calibration_text,
            max_context_len=32,
        )
    )
    report = exported.result.delegation
    assert report.linears == report.linears_delegated == config["num_hidden_layers"] * 7 + 1
    tokens = torch.randint(512, (32,), generator=torch.Generator().manual_seed(1))
    want = feed(exported.eager, tokens, [20, 1, 2, 7, 2])
    have = feed(exported.lowered, tokens, [20, 1, 2, 7, 2])
    error = ((want - have).norm() / want.norm()).item()
    assert error < (1e-4 if scheme.name == "none" else 0.1)
