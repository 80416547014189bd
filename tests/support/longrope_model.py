"""A small Phi-3 whose texts of up to ORIGINAL tokens have another rotary table than longer ones,
exported for the runner with both."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.exported import Quiet
from support.family_models import Case, reference_model
from support.once import made_once
from support.rotary_fields import longrope

from exporter.catalogue.names import EMBEDDED
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

ORIGINAL, CONTEXT, CALL = 40, 150, 64
FIELDS: dict[str, Any] = {
    "vocab_size": 4096,  # the embedded tokenizer's
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
    "original_max_position_embeddings": ORIGINAL,
    "bos_token_id": 0,
    "eos_token_id": 2,
    **longrope(3, partial_rotary_factor=0.5),
}


def export_longrope(directory: Path, **options: Any) -> Path:
    """Writes a checkpoint and exports it in float; returns the `.pte`."""
    reference_model(Case("phi3", "both tables", FIELDS)).save_pretrained(directory)
    shutil.copy(EMBEDDED / "tokenizer.json", directory)
    settings: dict[str, Any] = {"delegate": "cpu", "scheme": Scheme("none"), "max_seq_len": CALL}
    settings |= options
    return export_model(
        ExportOptions(str(directory), directory / "model.pte", **settings), Quiet()
    ).out


def shared_longrope(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `.pte`, beside its checkpoint and its ETRecord; read them, do not write them."""

    def make(directory: Path) -> Path:
        return export_longrope(directory, etrecord=directory / "model.etrecord")

    return made_once(tmp_path_factory, "longrope", make)
