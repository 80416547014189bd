"""The weights of an export, from its ETRecord, in the model that they are of."""

import errno
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor, nn

from delegates.passes.quantized import OWN, PACKED, ZERO_POINTS
from devtools.errors import BadRequest
from exporter.checkpoint import Checkpoint
from exporter.file.etrecord import WEIGHTS
from exporter.models.decoder import CausalLM
from quant.modules import QuantizedEmbedding, QuantizedWeight, set_weight
from quant.scheme import Scheme
from quant.weight_type import INT8, WeightType

_SCALES = "model.embed_tokens.scales"
_ADAPTED, _PAIRS = ".base.", re.compile(r"\.[ab]_\d+$")  # of exporter.models.low_rank
_LIFTED = "_lifted_tensor_constant"  # a number in the code, as ExecuTorch keeps it


def read_weights(etrecord: Path) -> dict[str, Tensor]:
    """The weights of the program by name, quantized ones as integers and scales, mapped from a
    temporary file.

    Raises:
        BadRequest: the record has none, or is damaged.
    """
    try:
        with ZipFile(etrecord) as archive, tempfile.TemporaryDirectory() as directory:
            if WEIGHTS not in archive.namelist():
                raise BadRequest(
                    f"{etrecord} has no weights of the program; export again with --etrecord."
                )
            path = archive.extract(WEIGHTS, directory)
            state: dict[str, Tensor] = torch.load(
                path, map_location="cpu", weights_only=True, mmap=True
            )
        if not all(isinstance(item, Tensor) for item in state.values()):
            raise TypeError("not all are tensors")
    except BadRequest:
        raise
    except Exception as error:  # what is damaged ends torch.load in many ways
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # a full disk
            raise
        raise BadRequest(f"{etrecord} is damaged; copy it again, or export again.") from error
    return state


def quantized_model(
    checkpoint: Checkpoint,
    weights: Mapping[str, Tensor],
    source: Path,
    scheme: Scheme,
    int8_heads: bool = False,
) -> CausalLM:
    """The model that was exported, with the weights that its record holds.

    Args:
        scheme: says in which blocks the linears of its layers rotate their inputs, and whether
            these are rounded in groups.
        int8_heads: whether its attention rounds heads to int8.

    Raises:
        BadRequest: they belong to a model of another shape than the checkpoint's.
    """
    config = checkpoint.config
    with torch.device("meta"):
        model = CausalLM(config.with_int8_heads() if int8_heads else config)
    fill(model, checkpoint, weights, source, scheme)
    return model.eval()


def fill(
    model: nn.Module,
    checkpoint: Checkpoint[Any],
    weights: Mapping[str, Tensor],
    source: Path,
    scheme: Scheme,
) -> None:
    """Gives an empty model the weights of a record, as quantized_model() does.

    Raises:
        BadRequest: they belong to a model of another shape than the checkpoint's.
    """
    levels = 2 if scheme.type is None else scheme.type.levels
    weights = {
        name.replace(_ADAPTED, "."): tensor
        for name, tensor in weights.items()
        if not _PAIRS.search(name)
    }
    for name, tensor in weights.items():
        if name.endswith((ZERO_POINTS, OWN, ".scales")) or name.startswith(_LIFTED):
            continue  # what lowering added; what goes with the integers
        if name.endswith(PACKED):
            if _SCALES in weights:  # else the head's integers are the table's
                _set_embedding(model, _quantized(_unpacked(tensor), weights[_SCALES], levels))
            continue
        path, _, key = name.rpartition(".")
        try:
            parent, module = model.get_submodule(path.rpartition(".")[0]), model.get_submodule(path)
        except AttributeError:
            raise _other_shape(source, checkpoint, name, tensor) from None
        expected = getattr(module, "weight" if key == "values" else key, None)
        if not isinstance(expected, Tensor) or not _fits(expected, tensor):
            raise _other_shape(source, checkpoint, name, tensor)
        if key == "values":
            weight = _quantized(tensor, weights[f"{path}.scales"], levels)
            if isinstance(module, nn.Embedding):
                own = path.rpartition(".")[2]
                parent.add_module(own, QuantizedEmbedding(weight, module.embedding_dim))
            else:
                if path.startswith("model.layers."):
                    weight = replace(weight, rotated=scheme.choice.rotated(expected.shape[1]))
                set_weight(parent, path.rpartition(".")[2], weight)
                if path == "lm_head" and checkpoint.config.tie_word_embeddings:  # of a decoder
                    _set_embedding(model, weight)
        else:
            module.register_parameter(key, nn.Parameter(tensor, requires_grad=False))
    if isinstance(model, CausalLM):
        _tie(model)
    lacking = next((name for name, item in model.named_parameters() if item.is_meta), None)
    if lacking is not None:
        raise BadRequest(
            f"{source} has no {lacking}, which {checkpoint.name} has; name the checkpoint that was "
            "exported."
        )


def _tie(model: CausalLM) -> None:
    """A table of floats that is also the head stands in a record under one of its two names."""
    table, head = model.model.get_submodule("embed_tokens"), model.lm_head
    if not (model.config.tie_word_embeddings and isinstance(table, nn.Embedding)):
        return
    if not isinstance(head, nn.Linear):
        return
    if head.weight.is_meta:
        head.weight = table.weight
    elif table.weight.is_meta:
        table.weight = head.weight


def _quantized(values: Tensor, scales: Tensor, levels: int) -> QuantizedWeight:
    """Integers and scales as a weight: what it computes is theirs, however many bits its type
    has."""
    columns, groups = values.shape[1], scales.shape[1]
    type = INT8 if groups == 1 else WeightType(4, columns // groups, levels)
    return QuantizedWeight(values, scales, type)


def _unpacked(values: Tensor) -> Tensor:
    """int8 (rows, columns) of a table that XNNPACK's lowering has packed two to a byte."""
    pairs = torch.stack((values >> 4, values & 15), dim=2).flatten(1)
    return pairs.to(torch.int8) - 8


def _set_embedding(model: nn.Module, table: QuantizedWeight) -> None:
    hidden_size = model.get_submodule("model.norm").get_parameter("weight").numel()
    decoder = model.get_submodule("model")
    decoder.add_module("embed_tokens", QuantizedEmbedding(table, hidden_size))


def _fits(expected: Tensor, tensor: Tensor) -> bool:
    """Equal shapes, but for the padding of a quantized weight's columns."""
    if expected.dim() != tensor.dim() or expected.shape[0] != tensor.shape[0]:
        return False
    last, stored = expected.shape[-1], tensor.shape[-1]
    padded = tensor.dim() == 2 and last <= stored < last + 128
    return stored == last or padded


def _other_shape(source: Path, checkpoint: Checkpoint, name: str, tensor: Tensor) -> BadRequest:
    return BadRequest(
        f"{source} is of a model whose {name} is {tuple(tensor.shape)}, which does not fit "
        f"{checkpoint.name}; name the checkpoint that was exported."
    )
