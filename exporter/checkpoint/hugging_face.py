"""A Hugging Face model directory: `config.json` beside safetensors, in one file or in shards."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from exporter.checkpoint.language_part import find_language_part
from exporter.checkpoint.safetensors_file import SafetensorsFile
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.families import Family, get_family, language_fields
from exporter.models.spec import DecoderSpec

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class SafetensorsWeights:
    """The tensors of one or several safetensors files, by their names in a causal LM.

    Attributes:
        part: the stored tensors that are read.
    """

    def __init__(self, files: list[SafetensorsFile]) -> None:
        self._files = files
        stored = {name: file for file in files for name in file.shapes()}
        self.part = find_language_part(stored)
        self._places = {ours: (stored[name], name) for ours, name in self.part.names.items()}
        self._shapes = {name: file.shapes()[key] for name, (file, key) in self._places.items()}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        file, key = self._places[name]
        return file.dtype(key)

    def tensor(self, name: str) -> Tensor:
        file, key = self._places[name]
        return file.tensor(key)

    def release(self) -> None:
        for file in self._files:
            file.release()


def has_weights(directory: Path) -> bool:
    """Whether a directory holds safetensors under the names that `open_weights` reads."""
    return (directory / SINGLE).is_file() or (directory / INDEX).is_file()


def open_weights(directory: Path) -> SafetensorsWeights:
    """Maps the safetensors of a model directory.

    Raises:
        ExportError: there are no weights, a shard is missing, or a file is damaged.
    """
    if not has_weights(directory):
        raise ExportError(_no_weights(directory))
    if (directory / SINGLE).is_file():
        return SafetensorsWeights([SafetensorsFile(directory / SINGLE)])
    return SafetensorsWeights(_open_shards(directory / INDEX))


def read_config(path: Path, family: Family | None = None) -> tuple[Family, DecoderSpec]:
    """Reads a Hugging Face `config.json`.

    Args:
        family: the architecture; None: the family of the config's model_type.

    Raises:
        ExportError: the file is missing, is not JSON, names an unsupported architecture, lacks a
            field, or asks for something that the decoder does not compute.
    """
    try:
        fields = read_object(path)
    except FileNotFoundError:
        raise ExportError(
            f"{path.parent} has no {path.name}; a Hugging Face model directory has one next to its "
            "weights: check the path of --checkpoint."
        ) from None
    try:
        language = language_fields(fields)
        family = get_family(language.get("model_type")) if family is None else family
        return family, family.spec(language)
    except ExportError as error:
        raise ExportError(f"{path}: {error}") from None


def read_model_config(directory: Path, family: Family | None) -> tuple[Family, DecoderSpec]:
    """Reads `config.json`, and adds the end-of-text ids of `generation_config.json`.

    Raises:
        ExportError: as `read_config` does.
    """
    family, config = read_config(directory / "config.json", family)
    path = directory / "generation_config.json"
    if not path.is_file():
        return family, config
    ids = read_object(path).get("eos_token_id")
    stops = ids if isinstance(ids, list) else [] if ids is None else [ids]
    vocabulary = range(config.vocab_size)
    if not all(type(stop) is int and stop in vocabulary for stop in stops):
        raise ExportError(
            f"{path} has an eos_token_id that is not a token id of this model: {ids!r}; vocab_size "
            f"is {config.vocab_size}."
        )
    ends = tuple(dict.fromkeys((*config.eos_token_ids, *stops)))
    return family, replace(config, eos_token_ids=ends)


def _open_shards(index: Path) -> list[SafetensorsFile]:
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise ExportError(f"{index} has no weight_map from tensors to files; download it again.")
    names = sorted(set(places.values()))
    absent = [name for name in names if not (index.parent / name).is_file()]
    if absent:
        raise ExportError(
            f"{index.parent} lacks {len(absent)} of the {len(names)} files that {INDEX} names: "
            f"{', '.join(absent[:5])}{', ...' if len(absent) > 5 else ''}; download them as well."
        )
    files = {name: SafetensorsFile(index.parent / name) for name in names}
    for tensor, name in places.items():
        if tensor not in files[name].shapes():
            raise ExportError(
                f"{INDEX} places {tensor} in {name}, which does not hold it; download "
                f"{index.parent} again."
            )
    return list(files.values())


def _no_weights(directory: Path) -> str:
    pickled = sorted(path.name for path in directory.glob("pytorch_model*.bin"))
    if pickled:
        return (
            f"{directory} holds its weights as {pickled[0]}, a pickle; this exporter reads "
            "safetensors: to convert it, load it with transformers and call save_pretrained."
        )
    return (
        f"{directory} has no weights: this exporter reads {SINGLE}, or {INDEX} with its shards, "
        "or Meta's consolidated.*.pth with params.json."
    )
