"""Models of the first layers of stories260K, with the record that `devtools compare` needs."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from support.exported import Quiet

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme


def first_layers(
    shared_data: Path, directory: Path, layers: int, broken: str | None = None
) -> Path:
    """Writes a checkpoint; returns its directory.

    Args:
        broken: a weight that becomes as wrong as it is large.
    """
    source = shared_data / "stories260K"
    config = json.loads((source / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    kept = {
        name: tensor
        for name, tensor in load_file(source / "model.safetensors").items()
        if ".layers." not in name or int(name.split(".layers.")[1].split(".")[0]) < layers
    }
    if broken is not None:
        noise = torch.randn(kept[broken].shape, generator=torch.Generator().manual_seed(2))
        kept[broken] = kept[broken] + noise * kept[broken].std()
    save_file(kept, directory / "model.safetensors")
    (directory / "tokenizer.model").symlink_to(source / "tokenizer.model")
    return directory


def export_recorded(
    checkpoint: Path, directory: Path, scheme: Scheme, delegate: str, **more: Any
) -> Path:
    """Exports a checkpoint and its ETRecord; returns the `.pte`."""
    out = directory / "model.pte"
    options = ExportOptions(
        model=str(checkpoint),
        out=out,
        scheme=scheme,
        max_context_len=96,
        max_seq_len=40,
        delegate=delegate,
        etrecord=out.with_suffix(".etrecord"),
        **more,
    )
    return export_model(options, Quiet()).out


def stretched(checkpoint: Path, directory: Path, original: int, limit: int) -> Path:
    """The same weights with a rotary base that grows with the length of the context, from so many
    positions up to the limit."""
    made = directory / f"stretched_{original}_{limit}"
    made.mkdir()
    for file in checkpoint.iterdir():
        (made / file.name).symlink_to(file.resolve())
    config = json.loads((checkpoint / "config.json").read_text())
    config["max_position_embeddings"] = original
    config["rope_scaling"] = {"rope_type": "dynamic", "factor": limit / original}
    (made / "config.json").unlink()
    (made / "config.json").write_text(json.dumps(config))
    return made
