"""A Hugging Face model directory: `config.json` beside the weights, in one file or in shards.

The weights are safetensors, or, in older models, what `torch.save` writes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from exporter.catalogue.weight_files import (
    CONFIG,
    INDEX_END,
    no_weights,
    shards,
    weights_name,
)
from exporter.checkpoint.language_part import find_language_part
from exporter.checkpoint.pickled_file import PickledFile
from exporter.checkpoint.safetensors_file import SafetensorsFile
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.family import Family, Spec


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


def open_all(directory: Path) -> NamedTensors:
    """Maps the tensors of a directory, by their stored names.

    Raises:
        ExportError: there are none, or a file is damaged.
    """
    files = open_files(directory)
    return NamedTensors(files, {name: name for name in stored_names(files)})


def read_spec(directory: Path, family: Family[Spec]) -> Spec:
    """Returns what a directory's config.json says of a model of this family.

    Raises:
        ExportError: it is missing, damaged or unsupported.
    """
    path = directory / CONFIG
    try:
        return family.spec(read_object(path))
    except ExportError as error:
        raise ExportError(f"{path}: {error}") from None


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


def open_weights(directory: Path) -> LanguageWeights:
    """Maps the weights of a language model's directory; raises as `open_files` does."""
    return LanguageWeights(open_files(directory))


def open_files(directory: Path) -> list[Weights]:
    """Maps the files of weights of a model directory.

    Raises:
        ExportError: there are no weights, a shard is missing, or a file is damaged.
    """
    name = weights_name(directory)
    if name is not None:
        index = name.endswith(INDEX_END)
        return _open_shards(directory / name) if index else [open_file(directory / name)]
    files = shards(directory)
    if files:
        return [open_file(path) for path in files]
    raise no_weights(directory)


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
    files = {name: open_file(index.parent / name) for name in names}
    for tensor, name in places.items():
        if tensor not in files[name].shapes():
            raise ExportError(
                f"{index.name} places {tensor} in {name}, which does not hold it; download "
                f"{index.parent} again."
            )
    return list(files.values())


def open_file(path: Path) -> Weights:
    """Opens a file of weights, safetensors by its name or else pickled."""
    return SafetensorsFile(path) if path.suffix == ".safetensors" else PickledFile(path)
