"""Small hybrids, of layers with attention and others, random weights, exported for the runner."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.exported import Quiet
from support.families.gemma4_text import GEMMA4
from support.families.qwen3_5_text import QWEN3_5
from support.family_models import Case, reference_model
from support.once import made_once

from exporter.catalogue.names import EMBEDDED
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

CONTEXT, BOS, EOS = 300, 0, 2  # the embedded tokenizer puts BOS 0 before texts
_SHAPE = {
    "vocab_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}
_LFM2 = {
    "block_ff_dim": 96,
    "block_multiple_of": 32,
    "layer_types": ["conv", "conv", "full_attention", "conv"],
}
_GEMMA4 = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 32,
    "hidden_size_per_layer_input": 32,
    "vocab_size_per_layer_input": 4096,
    "sliding_window": 40,  # with calls of 16 tokens, a ring smaller than the context
}
HYBRIDS = {
    "short convolutions": Case("lfm2", "small", {**_SHAPE, **_LFM2}),
    "delta rule": Case("qwen3_5_text", "small", {**_SHAPE, **QWEN3_5}),
}
# Without states, but with layers that use the keys and values of others.
SHARED = {"shared keys": Case("gemma4_text", "small", {**GEMMA4, **_SHAPE, **_GEMMA4})}


def export_hybrid(
    directory: Path, name: str, scheme: Scheme, delegate: str = "cpu", **options: Any
) -> Path:
    """Writes a checkpoint and exports it; returns the `.pte`."""
    reference_model({**HYBRIDS, **SHARED}[name]).save_pretrained(directory)
    shutil.copy(EMBEDDED / "tokenizer.json", directory)
    return export_model(
        ExportOptions(
            model=str(directory),
            out=directory / "model.pte",
            scheme=scheme,
            max_seq_len=16,
            delegate=delegate,
            **options,
        ),
        Quiet(),
    ).out


def shared_hybrid(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """The `.pte` in 4 bits, beside its checkpoint and its ETRecord; read them, do not write
    them."""

    def make(directory: Path) -> Path:
        etrecord = directory / "model.etrecord"
        return export_hybrid(directory, name, Scheme("rtn4"), etrecord=etrecord)

    return made_once(tmp_path_factory, name, make)
