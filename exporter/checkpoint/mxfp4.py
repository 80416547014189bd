"""Experts that a checkpoint stores in MXFP4, read as float32 or as integers.

MXFP4 (Open Compute Project, Microscaling Formats, 2023): 32 numbers of one row share a power of
two, stored as its exponent plus 127; each is one of 16 values of 4 bits. Two numbers are in a byte,
the first in its low half. The matrices of all experts of a layer are one tensor: it is read expert
by expert.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from quant.modules import QuantizedWeight
from quant.weight_type import INT8_GROUPS, WeightType

_METHOD = "mxfp4"
_BLOCKS, _SCALES = "_blocks", "_scales"
_HALF = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
FP4_VALUES = (*_HALF, *(-value for value in _HALF))  # by their 4 bits
_PAIRS = [(low, high) for high in FP4_VALUES for low in FP4_VALUES]  # by byte
_GROUP = 32
_BIAS = 127
_HALF_PRECISION = (-24, 15)  # the powers of two that float16 holds


def is_mxfp4(config: Mapping[str, Any] | None) -> bool:
    """Whether a `quantization_config`, which the family has checked, is MXFP4's."""
    return (config or {}).get("quant_method") == _METHOD


class Mxfp4Weights:
    """Stored weights in which <experts>.<part>_blocks and <experts>.<part>_scales are read as
    <experts>.<number>.<part>, float32 (out_features, in_features), or as integers."""

    def __init__(self, weights: Weights, path: Path) -> None:
        """
        Args:
            path: of the checkpoint, for messages.

        Raises:
            ExportError: blocks have no scales, or do not fit them.
        """
        self._weights = weights
        stored = weights.shapes()
        self._shapes = dict(stored)
        self._places: dict[str, tuple[str, int]] = {}  # of each expert's: the part, its number
        self._pairs = torch.tensor(_PAIRS)
        for name, shape in stored.items():
            if not name.endswith(_BLOCKS):
                continue
            part = name.removesuffix(_BLOCKS)
            scales = stored.get(part + _SCALES)
            if scales is None or (*scales, _GROUP // 2) != shape or len(shape) != 4:
                problem = "is missing" if scales is None else f"is {scales}"
                raise ExportError(
                    f"{path}: {part}{_SCALES} {problem}, which does not fit {name} {shape}; "
                    "download the files again."
                )
            del self._shapes[name], self._shapes[part + _SCALES]
            experts, _, last = part.rpartition(".")
            for number in range(shape[0]):
                own = f"{experts}.{number}.{last}"
                self._places[own] = part, number
                self._shapes[own] = (shape[1], shape[2] * _GROUP)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self._places else self._weights.dtype(name)

    def tensor(self, name: str) -> Tensor:
        if name not in self._places:
            return self._weights.tensor(name)
        return torch.ldexp(self._numbers(name), self._exponents(name)[..., None]).flatten(1)

    def source_type(self, name: str) -> str:
        if name in self._places:
            return _METHOD.upper()
        return str(self._weights.dtype(name)).removeprefix("torch.")

    def kept_type(self, name: str) -> WeightType | None:
        """Numbers are halves of -12 .. 12: int8, with half the power of two as the scale."""
        if name not in self._places:
            return None
        exponents = self._exponents(name) - 1
        least, most = _HALF_PRECISION
        exact = exponents.min() >= least and exponents.max() <= most
        return INT8_GROUPS if exact else None

    def integers(self, name: str) -> QuantizedWeight:
        values = (2 * self._numbers(name)).to(torch.int8).flatten(1)
        exponents = self._exponents(name) - 1
        scales = torch.ldexp(torch.ones(exponents.shape), exponents)
        return QuantizedWeight(values, scales, INT8_GROUPS)

    def release(self) -> None:
        self._weights.release()

    def _numbers(self, name: str) -> Tensor:
        """Of an expert's matrix, before the powers of two: float32 (rows, groups, 32)."""
        part, number = self._places[name]
        blocks = self._weights.tensor(part + _BLOCKS)[number]  # (rows, groups, 16)
        return F.embedding(blocks.int(), self._pairs).flatten(-2)

    def _exponents(self, name: str) -> Tensor:
        """Of its powers of two: int32 (rows, groups)."""
        part, number = self._places[name]
        return self._weights.tensor(part + _SCALES)[number].int() - _BIAS
