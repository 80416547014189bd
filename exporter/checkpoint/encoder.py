"""Opens the checkpoint of an encoder, and of what follows it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.catalogue.weight_files import CONFIG
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.hugging_face import NamedTensors, open_all, open_files, stored_names
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.encoder_spec import AnyEncoderSpec
from exporter.models.encoders import encoder_family
from exporter.models.family import Family
from exporter.models.tensor_layout import Stored

_DENSE = "dense."
_PREFIXES = ("bert.", "roberta.", "model.")  # what a model with a head puts before its encoder's


def open_encoder(directory: Path, dense: Sequence[Path] = ()) -> Checkpoint[AnyEncoderSpec]:
    """Maps the weights of a directory for which is_encoder() is true, and reads their headers.

    Args:
        dense: directories with the weights of the linears behind the pooling.

    Raises:
        ExportError: there are no weights, or the config or they are damaged or unsupported.
    """
    path = directory / CONFIG
    fields = read_object(path)
    family = encoder_family(fields)
    assert family is not None
    _require_no_classes(path, fields)
    try:
        config = family.spec(fields)
    except ExportError as error:
        raise ExportError(f"{path}: {error}") from None
    files = open_files(directory)
    names = {_bare(name): name for name in stored_names(files)}
    weights: Weights = NamedTensors(files, names)
    if dense:
        weights = _Together(weights, list(map(open_all, dense)))
    name = directory.resolve().name
    return Checkpoint(config, directory, name, weights, _with_dense(family))


def _require_no_classes(path: Path, fields: Mapping[str, Any]) -> None:
    """Raises ExportError for a model whose last layer gives texts, or pairs of them, scores."""
    named = fields.get("architectures") or []
    scores = [name for name in named if str(name).endswith("ForSequenceClassification")]
    if scores:
        raise ExportError(
            f"{path} is of a {scores[0]}, which scores texts or pairs of them (a cross-encoder or "
            "reranker); this exporter takes models that embed texts."
        )


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _with_dense(family: Family[AnyEncoderSpec]) -> Family[AnyEncoderSpec]:
    """Returns the family of which `stored` knows the linears behind the pooling, too."""

    def stored(spec: AnyEncoderSpec, name: str) -> Stored:
        return Stored((name,)) if name.startswith(_DENSE) else family.stored(spec, name)

    return replace(family, stored=stored)


class _Together:
    """The encoder's tensors, and those of linears by names such as dense.0.linear.weight."""

    def __init__(self, encoder: Weights, dense: Sequence[Weights]) -> None:
        self._all = [("", encoder), *((f"{_DENSE}{at}.", file) for at, file in enumerate(dense))]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            prefix + name: shape
            for prefix, weights in self._all
            for name, shape in weights.shapes().items()
        }

    def dtype(self, name: str) -> torch.dtype:
        weights, own = self._place(name)
        return weights.dtype(own)

    def tensor(self, name: str) -> Tensor:
        weights, own = self._place(name)
        return weights.tensor(own)

    def release(self) -> None:
        for _, weights in self._all:
            weights.release()

    def _place(self, name: str) -> tuple[Weights, str]:
        prefix, weights = next(item for item in reversed(self._all) if name.startswith(item[0]))
        return weights, name.removeprefix(prefix)
