"""Detects what kind of checkpoint a name refers to, and opens it."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exporter.catalogue import weight_files
from exporter.catalogue.model_config import read_model_config
from exporter.catalogue.names import check_checkpoint, is_hub_file
from exporter.catalogue.weight_files import check_model_file, is_tuned, meta_files
from exporter.checkpoint import (
    fp8,
    gguf,
    hugging_face,
    meta,
    mlx_layout,
    mlx_weights,
    mxfp4,
    nf4,
    torchtune,
)
from exporter.checkpoint.checkpoint import FLOATS, HEAD, Checkpoint
from exporter.checkpoint.language_part import LanguagePart
from exporter.checkpoint.packed import UnpackedWeights
from exporter.checkpoint.packed_config import read_packing, rounded_activations
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.families import Family, language_fields


def open_checkpoint(source: str | Path, family: Family | None = None) -> Checkpoint:
    """Opens a checkpoint: maps its files and reads their headers, but no weights.

    Args:
        source: a directory in the layout of Hugging Face, Meta or torchtune, a GGUF file, or a hub
            id "org/name" or "org/name/file.gguf", which is downloaded. An existing path takes
            precedence.
        family: the architecture; None: the family of the config's model_type.

    Raises:
        ExportError: there is no checkpoint, or it is damaged or unsupported.
    """
    check_checkpoint(source)
    path = Path(os.path.expanduser(source))
    if os.path.isdir(path):  # for impossible names os.path returns False, pathlib raises
        return _open_directory(path, path.resolve().name, family)
    if os.path.exists(path):
        return _open_file(path, path.stem, family)
    from exporter.catalogue import hub  # here: half a second to import

    name = str(source)
    if is_hub_file(name):
        return _open_file(hub.download_file(name), name, family)
    return _open_directory(hub.download_model(name), name, family)


def _open_file(path: Path, name: str, family: Family | None) -> Checkpoint:
    check_model_file(path)
    family, config, weights = gguf.open_gguf(path, family)
    return Checkpoint(config, path, name, weights, family, weights.left_out, notes=weights.notes)


def _open_directory(directory: Path, name: str, family: Family | None) -> Checkpoint:
    files, has_weights = meta_files(directory), weight_files.has_weights(directory)
    if files and not has_weights:
        family, config, weights = meta.open_meta(directory, files, family)
        return Checkpoint(config, directory, name, weights, family)
    family, config = read_model_config(directory, family)
    if is_tuned(directory) and not has_weights:
        tuned = torchtune.open_weights(directory, config)
        return Checkpoint(config, directory, name, tuned, family)
    opened = hugging_face.open_weights(directory)
    tensors = len(opened.shapes())
    if config.num_hidden_layers > tensors:  # a million layers would take long to compare
        raise ExportError(
            f"{directory / 'config.json'} has num_hidden_layers {config.num_hidden_layers}, but "
            f"{name} has only {tensors} tensors in all; take config and weights from the same "
            "model."
        )
    notes = [*_wrapping(opened.part)]
    lacks_head = opened.part.is_nested and HEAD not in opened.shapes()
    if lacks_head and not config.tie_word_embeddings:
        config = replace(config, tie_word_embeddings=True)
        notes.append(
            f"no {HEAD} is stored, so the embedding is also the head, although config.json does "
            "not say tie_word_embeddings. transformers takes random numbers."
        )
    fields = language_fields(read_object(directory / "config.json"))
    return Checkpoint(
        config,
        directory,
        name,
        _unpacked(opened, directory, fields),
        family,
        opened.part.left_out,
        rounded_activations=rounded_activations(fields.get("quantization_config") or {}),
        notes=(*notes, *_notes(opened, fields)),
    )


def _wrapping(part: LanguagePart) -> tuple[str, ...]:
    if not part.is_wrapped:
        return ()
    return (
        "names of tensors have around them what trained or compiled the model, such as module.: "
        "they are read without it, and transformers may not find them.",
    )


def _notes(stored: Weights, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """What to say of a config.json of quantized weights beside weights that are not."""
    named = [name for name in ("quantization_config", "quantization") if fields.get(name)]
    if not named or any(stored.dtype(name) not in FLOATS for name in stored.shapes()):
        return ()
    return (
        f"config.json has a {named[0]}, but all weights beside it are floats: they are taken as "
        "they are.",
    )


def _unpacked(stored: Weights, directory: Path, fields: Mapping[str, Any]) -> Weights:
    """Returns the weights with packed ones as floats, by the `quantization_config`.

    Args:
        fields: the language model's, of config.json.
    """
    path = directory / "config.json"
    config = fields.get("quantization_config") or {}
    modules: Mapping[str, str] = {}
    if mlx_layout.has_layout(stored.shapes()):
        stored = mlx_layout.MlxLayout(stored, fields["model_type"])
        modules = stored.modules
    if mxfp4.is_mxfp4(config):
        return mxfp4.Mxfp4Weights(stored, directory)
    if fp8.is_fp8(config):
        return fp8.Fp8Weights(stored, fp8.read_blocks(path, config), directory)
    if mlx_weights.is_mlx(fields):
        return mlx_weights.MlxWeights(stored, fields["quantization"], directory, modules)
    if nf4.is_nf4(config):
        return nf4.Nf4Weights(stored, directory)
    packing_of = read_packing(path, fields)
    if packing_of is None:
        return stored
    unpacked = UnpackedWeights(stored, packing_of, directory)
    if not fp8.has_fp8_groups(config):
        return unpacked
    return fp8.Fp8Weights(unpacked, fp8.read_blocks(path, config), directory)
