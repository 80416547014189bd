"""The importance of a model's columns, of llama.cpp's importance matrix of the same model."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from exporter.catalogue.imatrix_file import Imatrix, InputSquares, read_imatrix
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.gguf import EXPERTS, hugging_face_name
from exporter.checkpoint.gguf_config import ARCHITECTURES, Architecture
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from quant.importance import Importance
from quant.layers.blocks import parts_of_layer, shape_of
from quant.layers.walk import walk

_NAMES_SHOWN = 5
_END = ".weight"
_OTHER_ORDER = ".linear_attn.out_proj."  # of columns, where heads of values are apart


def read_importance(
    path: Path, checkpoint: Checkpoint, model: CausalLM
) -> tuple[Importance, str | None]:
    """Reads a file for a model.

    Args:
        model: the checkpoint's, on any device.

    Returns:
        the importance, and a note on the matrices that the file does not tell of; None: it tells
        of all.

    Raises:
        ExportError: the file is absent or damaged, or is of another model.
    """
    file = read_imatrix(path)
    kind = _architecture(checkpoint.config.model_type)
    named = {hugging_face_name(name, kind): name for name in file.tensors}
    if kind.tiled_values:
        named = {name: own for name, own in named.items() if _OTHER_ORDER not in name}
    columns, missing = {}, []
    for name, width in _matrices(model):
        found = _find(checkpoint, named, f"{name}{_END}")
        means = None
        if found is not None:
            own, expert = found
            means = _means(file, own, file.tensors[own], width, expert, name)
        if means is None:
            missing.append(name)
        else:
            columns[name] = means
    if not columns:
        raise ExportError(
            f"{path} tells of no matrix of {checkpoint.name}; name an importance matrix that was "
            "made of this model."
        )
    facts = {"file": path.name, "chunks": file.chunks, "matrices": len(columns)}
    return Importance(columns, facts), _note(path, missing, len(columns))


def _architecture(model_type: str) -> Architecture:
    """What GGUF files of the family are called, as far as it differs from the others."""
    kinds = [kind for own in ARCHITECTURES.values() for kind in (own, own.with_experts) if kind]
    of_type = (kind for kind in kinds if kind.model_type == model_type)
    return next(of_type, Architecture(model_type))


def _matrices(model: CausalLM) -> Iterator[tuple[str, int]]:
    """The matrices of the layers, and how many columns each has."""
    for stop in walk(model):
        for part in parts_of_layer(stop.layer):
            for linear in part.linears:
                yield f"{stop.name}.{linear}", shape_of(stop.layer, linear)[1]


def _find(
    checkpoint: Checkpoint, named: dict[str, str], name: str
) -> tuple[str, int | None] | None:
    """The tensor of the file that reads what the model's does, and the expert's number in it."""
    for other in checkpoint.names_of(name):
        if other in named:
            return named[other], None
        block, is_expert, rest = other.partition(EXPERTS)
        number, _, part = rest.partition(".")
        whole = f"{block}{EXPERTS}{part}"
        if is_expert and number.isdecimal() and whole in named:
            return named[whole], int(number)
    return None


def _means(
    file: Imatrix, own: str, squares: InputSquares, width: int, expert: int | None, name: str
) -> Tensor | None:
    """The importance of a matrix's columns: float32 (width,); None: the text never reached it."""
    means = squares.means(width)
    rows = 1 if expert is None else expert + 1
    if means is None or len(means) < rows or expert is None and len(means) > 1:
        raise ExportError(
            f"{file.path} has {len(squares.sums):,} numbers for {own}, which is {name} here, with "
            f"{width:,} columns; name an importance matrix that was made of this model."
        )
    own_means = torch.from_numpy(means[rows - 1])
    mean = own_means.mean()
    if not mean.isfinite() or mean <= 0:
        return None
    return (own_means / mean).float()


def _note(path: Path, missing: list[str], found: int) -> str | None:
    if not missing:
        return None
    shown = ", ".join(missing[:_NAMES_SHOWN]) + (", ..." if len(missing) > _NAMES_SHOWN else "")
    return (
        f"{path.name} does not tell of {len(missing)} of {len(missing) + found} matrices, in which "
        f"all columns count alike: {shown}."
    )
