"""A Hugging Face model directory: `config.json` beside the weights, in one file or in shards.

The weights are safetensors, or, in older models, what `torch.save` writes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from exporter.checkpoint import adapter_config
from exporter.checkpoint.language_part import find_language_part
from exporter.checkpoint.pickled_file import PickledFile
from exporter.checkpoint.safetensors_file import SafetensorsFile
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.families import Family, get_family, language_fields
from exporter.models.spec import DecoderSpec

SINGLE, PICKLED = "model.safetensors", "pytorch_model.bin"
INDEX, PICKLED_INDEX = f"{SINGLE}.index.json", f"{PICKLED}.index.json"
_FILES = (SINGLE, INDEX, PICKLED, PICKLED_INDEX)  # the first that is there is read


class NamedTensors:
    """The tensors of one or several files, by names of ours.

    Args:
        names: the stored name of each tensor that is read, by ours.
    """

    def __init__(self, files: Sequence[Weights], names: Mapping[str, str]) -> None:
        self._files = files
        stored = {name: file for file in files for name in file.shapes()}
        self._places = {ours: (stored[name], name) for ours, name in names.items()}
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


class LanguageWeights(NamedTensors):
    """Those by their names in a causal LM.

    Attributes:
        part: the stored tensors that are read.
    """

    def __init__(self, files: Sequence[Weights]) -> None:
        self.part = find_language_part(stored_names(files))
        super().__init__(files, self.part.names)


def stored_names(files: Sequence[Weights]) -> list[str]:
    """Returns the names of all tensors."""
    return list(dict.fromkeys(name for file in files for name in file.shapes()))


def has_weights(directory: Path) -> bool:
    """Whether a directory holds weights under one of the names that `open_weights` reads."""
    return any((directory / name).is_file() for name in _FILES) or bool(_shards(directory))


def open_weights(directory: Path) -> LanguageWeights:
    """Maps the weights of a language model's directory; raises as `open_files` does."""
    return LanguageWeights(open_files(directory))


def open_files(directory: Path) -> list[Weights]:
    """Maps the files of weights of a model directory.

    Raises:
        ExportError: there are no weights, a shard is missing, or a file is damaged.
    """
    for name in _FILES:
        if (directory / name).is_file():
            index = name in (INDEX, PICKLED_INDEX)
            return _open_shards(directory / name) if index else [_open(directory / name)]
    shards = _shards(directory)
    if shards:
        return [_open(path) for path in shards]
    raise ExportError(
        f"{directory} has no weights: this exporter reads {SINGLE} or {PICKLED}, or {INDEX} or "
        f"{PICKLED_INDEX} with its shards, or torchtune's model-00001-of-00001.bin, or Meta's "
        "consolidated.*.pth with params.json."
    )


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
        if (path.parent / adapter_config.CONFIG).is_file():
            raise ExportError(
                f"{path.parent} is an adapter, not a model: export its base model"
                f"{_named(path.parent)} with --adapter {path.parent}."
            ) from None
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


def _named(adapter: Path) -> str:
    """The name of an adapter's base model, if the adapter tells it."""
    base = read_object(adapter / adapter_config.CONFIG).get("base_model_name_or_path")
    return f" {base}" if isinstance(base, str) and base else ""


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


def _shards(directory: Path) -> list[Path]:
    """Returns the shards of a model without an index, which their names tell.

    Raises:
        ExportError: some of them are missing.
    """
    for single in (SINGLE, PICKLED):
        stem, _, end = single.partition(".")
        named = {path.name for path in directory.glob(f"{stem}-*-of-*.{end}")}
        shards = [name for name in named if re.fullmatch(r".*-\d{5}-of-\d{5}\.\w+", name)]
        if not shards:
            continue
        count = max(int(name.partition("-of-")[2][:5]) for name in shards)
        expected = [f"{stem}-{number:05d}-of-{count:05d}.{end}" for number in range(1, count + 1)]
        absent = [name for name in expected if name not in named]
        if absent:
            raise ExportError(
                f"{directory} lacks {len(absent)} of {count} files of weights: "
                f"{', '.join(absent[:5])}{', ...' if len(absent) > 5 else ''}; download them as "
                "well."
            )
        return [directory / name for name in expected]
    return []


def _open_shards(index: Path) -> list[Weights]:
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise ExportError(f"{index} has no weight_map from tensors to files; download it again.")
    names = sorted(set(places.values()))
    absent = [name for name in names if not (index.parent / name).is_file()]
    if absent:
        raise ExportError(
            f"{index.parent} lacks {len(absent)} of the {len(names)} files that {index.name} "
            f"names: {', '.join(absent[:5])}{', ...' if len(absent) > 5 else ''}; download them as "
            "well."
        )
    files = {name: _open(index.parent / name) for name in names}
    for tensor, name in places.items():
        if tensor not in files[name].shapes():
            raise ExportError(
                f"{index.name} places {tensor} in {name}, which does not hold it; download "
                f"{index.parent} again."
            )
    return list(files.values())


def _open(path: Path) -> Weights:
    return SafetensorsFile(path) if path.suffix == ".safetensors" else PickledFile(path)
