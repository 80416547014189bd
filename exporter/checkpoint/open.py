"""Finding out what kind of checkpoint a name means, and opening it."""

import os
from pathlib import Path

from exporter.checkpoint import hub, hugging_face, meta
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.models.families import Family


def open_checkpoint(source: str | Path, family: Family | None = None) -> Checkpoint:
    """Opens a checkpoint; its files are mapped and their headers read, no weight is yet.

    Args:
        source: a directory in the layout of Hugging Face or of Meta, or a hub id "org/name",
            which is fetched. A directory that exists goes before a hub id.
        family: the architecture; None: the one of the config's model_type.

    Raises:
        ExportError: nothing there, or a damaged or unsupported checkpoint.
    """
    directory = Path(os.path.expanduser(source))
    if os.path.isdir(directory):  # os.path answers no where pathlib raises, for impossible names
        return _open_directory(directory, directory.resolve().name, family)
    if os.path.exists(directory):
        raise ExportError(
            f"{source} is a file; a checkpoint is the directory that holds config.json and the "
            "weights: name that."
        )
    if isinstance(source, str) and hub.is_hub_id(source):
        return _open_directory(hub.download(source), source, family)
    raise ExportError(
        f"There is no directory {source}; a checkpoint is a directory or a hub id such as "
        "meta-llama/Llama-3.2-1B."
    )


def _open_directory(directory: Path, name: str, family: Family | None) -> Checkpoint:
    files = meta.find_files(directory)
    if files and not hugging_face.has_weights(directory):
        family, config, weights = meta.open_meta(directory, files, family)
        return Checkpoint(config, directory, name, weights, family)
    family, config = hugging_face.read_model_config(directory, family)
    stored = hugging_face.open_weights(directory)
    tensors = len(stored.shapes())
    if config.num_hidden_layers > tensors:  # a million would take long to compare with
        raise ExportError(
            f"{directory / 'config.json'} speaks of {config.num_hidden_layers} layers, and {name} "
            f"has {tensors} tensors in all; take config and weights from the same model."
        )
    return Checkpoint(config, directory, name, stored, family)
