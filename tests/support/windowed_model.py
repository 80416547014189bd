"""A small model with sliding windows, random weights, exported for the runner."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.exported import Quiet
from support.once import made_once

from exporter.catalogue.names import EMBEDDED
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

CONTEXT = 300
CONFIG = {
    "model_type": "mistral",
    "vocab_size": 4096,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": CONTEXT,
    "sliding_window": 20,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def export_windowed(directory: Path) -> Path:
    """Writes a checkpoint and exports it; returns the `.pte`. Its rings have 64 rows: a full
    context is written around four times."""
    generator = torch.Generator().manual_seed(0)
    model = CausalLM(decoder_spec(CONFIG))
    tensors = {
        name: 0.2 * torch.randn(parameter.shape, generator=generator)
        for name, parameter in model.named_parameters()
    }
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(CONFIG))
    options = ExportOptions(
        model=str(directory),
        out=directory / "model.pte",
        scheme=Scheme("none"),
        tokenizer=EMBEDDED / "tokenizer.json",
        max_seq_len=16,
        delegate="cpu",
    )
    return export_model(options, Quiet()).out


def shared_windowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `.pte`; read it, do not write it."""
    return made_once(tmp_path_factory, "windows", export_windowed)
