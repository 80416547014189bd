"""Stored integers that can be kept: what a checkpoint says of them, and one tensor of the model
made of several."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from exporter.checkpoint.weights import Weights
from exporter.models.tensor_layout import Stored
from quant.modules import QuantizedWeight
from quant.weight_type import WeightType


@runtime_checkable
class IntegerWeights(Weights, Protocol):
    """Stored tensors of which some are integers and scales."""

    def source_type(self, name: str) -> str:
        """Returns the name of the type in which a tensor is stored, such as Q4_0."""

    def kept_type(self, name: str) -> WeightType | None:
        """Returns the type in which a tensor's integers are kept; None for floats and for types
        of which no delegate's format holds the integers.

        Raises:
            ExportError: the integers should be kept and cannot be.
        """

    def integers(self, name: str) -> QuantizedWeight:
        """Returns the integers of a tensor that has a `kept_type`."""


def kept_type(weights: Weights, stored: Stored) -> WeightType | None:
    """Returns the type of a tensor of the model whose integers can be kept, else None."""
    if not isinstance(weights, IntegerWeights):
        return None
    types = {weights.kept_type(name) for name in stored.names}
    if len(types) != 1 or None in types:
        return None
    (type,) = types
    assert type is not None
    shapes = [weights.shapes()[name] for name in stored.names]
    parts = [_empty(shape, type) for shape in shapes]
    made = [stored.make(*tensors) for tensors in zip(*parts, strict=True)]
    return type if _by_rows(made[0], made[1], parts[0]) else None


def integers(weights: Weights, stored: Stored) -> QuantizedWeight | None:
    """Returns the integers of such a tensor; None where they cannot be kept."""
    type = kept_type(weights, stored)
    if type is None or not isinstance(weights, IntegerWeights):
        return None
    parts = [weights.integers(name) for name in stored.names]
    values = stored.make(*(part.values for part in parts)).contiguous()
    return QuantizedWeight(values, stored.make(*(part.scales for part in parts)).contiguous(), type)


def _empty(shape: tuple[int, ...], type: WeightType) -> tuple[Tensor, Tensor]:
    """Values and scales of a stored tensor, without memory."""
    *rows, columns = shape
    stored = type.padded(columns)
    groups = stored // type.group_size if type.in_groups else 1
    values = torch.empty(*rows, stored, dtype=torch.int8, device="meta")
    return values, torch.empty(*rows, groups, device="meta")


def _by_rows(values: Tensor, scales: Tensor, stored: tuple[Tensor, Tensor]) -> bool:
    """Whether only rows were chosen and moved: neither are columns rows, nor integers floats."""
    widths = tuple(part.shape[-1] for part in stored)
    moved = (values.shape[-1], scales.shape[-1]) == widths
    return moved and values.dtype is torch.int8 and values.shape[:-1] == scales.shape[:-1]
