"""Weights that a checkpoint stores as packed integers, read as float32 or as they are: GPTQ's,
AWQ's and compressed-tensors' layouts.

In each of them a weight is scale * (integer - zero point), with one scale and one zero point for a
group of inputs of one output.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from quant.modules import QuantizedWeight
from quant.weight_type import GROUP_SIZES, INT8, WeightType

_WORD = 32  # bits of a packed integer
_SHAPE = "weight_shape"  # the suffix of a tensor that holds the shape of a weight
_AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]  # where in a word the eight columns lie


@dataclass(frozen=True)
class Grid:
    """What the integers of a weight mean: scale * (integer - zero).

    Attributes:
        zeros: int32, scales: float32, both (out_features, groups).
        groups: int64 (in_features,), the group of each input.
        group_size: inputs of a group.
    """

    zeros: Tensor
    scales: Tensor
    groups: Tensor
    group_size: int


class Packing(Protocol):
    """How the integers of one method are stored in a checkpoint."""

    @property
    def main(self) -> str:
        """The suffix of the tensor that every packed module has."""

    @property
    def others(self) -> tuple[str, ...]:
        """The suffixes of the tensors that may be next to it."""

    def shape(self, parts: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
        """Returns (out_features, in_features); ValueError if the parts do not fit each other."""

    @property
    def bits(self) -> int:
        """Of an integer."""

    def values(self, parts: Mapping[str, Tensor]) -> Tensor:
        """Returns the integers, int32 (out_features, in_features) from -2^(bits-1) on."""

    def grid(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Grid:
        """Returns the scales and zero points of a weight of that shape; the main tensor is not
        read."""


class UnpackedWeights:
    """Stored weights whose packed ones are read as float32 under the name `<module>.weight`, or as
    integers."""

    def __init__(self, weights: Weights, packing: Packing, path: Path) -> None:
        """
        Args:
            path: of the checkpoint, for messages.

        Raises:
            ExportError: parts of a packed weight are missing or do not fit each other.
        """
        self._weights, self._packing, self._path = weights, packing, path
        stored = weights.shapes()
        self._parts: dict[str, dict[str, str]] = {}  # of each packed weight, by suffix
        hidden = set()
        for name in stored:
            module, _, suffix = name.rpartition(".")
            if suffix == packing.main and _is_packed(weights, name):
                parts = {s: f"{module}.{s}" for s in (suffix, *packing.others)}
                self._parts[f"{module}.weight"] = {s: n for s, n in parts.items() if n in stored}
                hidden |= set(parts.values())
        self._shapes = {name: shape for name, shape in stored.items() if name not in hidden}
        self._matrices: dict[str, tuple[int, int]] = {}  # the shapes of packed weights
        for name, parts in self._parts.items():
            try:
                shape = packing.shape({s: stored[n] for s, n in parts.items()})
                self._matrices[name] = self._unpadded(parts, shape)
            except (ValueError, KeyError) as error:
                raise ExportError(
                    f"{path}: the packed parts of {name} do not fit quantization_config ({error}); "
                    "download the files again."
                ) from None
        self._shapes.update(self._matrices)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self._parts else self._weights.dtype(name)

    def tensor(self, name: str) -> Tensor:
        parts = self._parts.get(name)
        if parts is None:
            return self._weights.tensor(name)
        grid, values = self._grid(name), self._values(name)
        return (values - grid.zeros[:, grid.groups]).float() * grid.scales[:, grid.groups]

    def source_type(self, name: str) -> str:
        if name not in self._parts:
            return str(self._weights.dtype(name)).removeprefix("torch.")
        return f"int{self._packing.bits}"

    def kept_type(self, name: str) -> WeightType | None:
        if name not in self._parts:
            return None
        return self._kept_type(name, self._grid(name))

    def integers(self, name: str) -> QuantizedWeight:
        grid, values = self._grid(name), self._values(name)
        type = self._kept_type(name, grid)
        assert type is not None
        if not type.in_groups:
            return QuantizedWeight(values.to(torch.int8), grid.scales, type)
        columns = type.padded(values.shape[1])
        scales = grid.scales.repeat_interleave(grid.group_size // type.group_size, dim=1)
        padded = F.pad(values.to(torch.int8), (0, columns - values.shape[1]))
        return QuantizedWeight(padded, scales[:, : columns // type.group_size].contiguous(), type)

    def _kept_type(self, name: str, grid: Grid) -> WeightType | None:
        """The type of a packed weight on that grid."""
        columns = self._matrices[name][1]
        if grid.zeros.any():
            raise self._not_kept(name, f"asymmetric int{self._packing.bits}, with zero points")
        if not torch.equal(grid.groups, _groups(columns, grid.group_size)):
            raise self._not_kept(name, "quantized with its inputs in another order (desc_act)")
        if grid.group_size == columns and self._packing.bits == 8:
            return INT8
        fitting = [size for size in reversed(GROUP_SIZES) if grid.group_size % size == 0]
        if not fitting:
            raise self._not_kept(name, f"in groups of {grid.group_size}, no multiple of 32")
        exact = torch.equal(grid.scales, grid.scales.half().float())
        return WeightType(max(4, self._packing.bits), fitting[0], 1) if exact else None

    def _unpadded(self, parts: Mapping[str, str], shape: tuple[int, int]) -> tuple[int, int]:
        """Returns the shape that is stored beside the words, whose last one may not be full."""
        if _SHAPE not in parts:
            return shape
        declared = tuple(self._weights.tensor(parts[_SHAPE]).tolist())
        spare = _WORD // self._packing.bits
        if len(declared) != 2 or declared[0] != shape[0] or not 0 <= shape[1] - declared[1] < spare:
            raise ValueError(f"{_SHAPE} says {declared}, and {shape} are stored")
        return declared

    def _grid(self, name: str) -> Grid:
        parts = self._parts[name]
        others = {s: self._weights.tensor(n) for s, n in parts.items() if s != self._packing.main}
        try:
            grid = self._packing.grid(others, self._matrices[name])
        except ValueError as error:
            raise ExportError(f"{self._path}: {name} {error}.") from None
        last = grid.scales.shape[1] - 1
        first_group, last_group = (int(end) for end in grid.groups.aminmax())
        if first_group < 0 or last_group > last:
            wrong = first_group if first_group < 0 else last_group
            raise ExportError(
                f"{self._path}: {name} has an input in group {wrong}, but its groups are 0 to "
                f"{last}; download the files again."
            )
        return grid

    def _values(self, name: str) -> Tensor:
        main = self._packing.main
        values = self._packing.values({main: self._weights.tensor(self._parts[name][main])})
        return values[:, : self._matrices[name][1]]

    def _not_kept(self, name: str, what: str) -> ExportError:
        return ExportError(
            f"{self._path}: {name} is {what}, which --quant keep cannot store; use --quant rtn8 "
            "or gptq4, which quantize the floats that it stands for."
        )

    def release(self) -> None:
        self._weights.release()


@dataclass(frozen=True)
class GptqPacking:
    """AutoGPTQ's and GPTQModel's layout: `qweight` int32 (in_features * bits / 32, out_features).

    Attributes:
        bits: 2, 4 or 8.
        group_size: inputs of a group; -1: all of them.
        lowered: whether 1 was taken from every zero point, as in the format's first version.
        symmetric: whether every zero point is the middle; None: not said. Where they are, what is
            stored says whether 1 was taken, and not `lowered`: there are files of either kind under
            the name of the other.
    """

    bits: int
    group_size: int
    lowered: bool
    symmetric: bool | None = None
    main: str = "qweight"
    others: tuple[str, ...] = ("qzeros", "scales", "g_idx")

    def shape(self, parts: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
        words, rows = _two(parts, "qweight")
        columns = words * _WORD // self.bits
        groups = 1 if self.group_size == -1 else -(-columns // self.group_size)
        _require(parts, "scales", (groups, rows))
        _require(parts, "qzeros", (groups, rows * self.bits // _WORD))
        if "g_idx" in parts:
            _require(parts, "g_idx", (columns,))
        return rows, columns

    def values(self, parts: Mapping[str, Tensor]) -> Tensor:
        return unpacked(parts["qweight"].T, self.bits) - 2 ** (self.bits - 1)

    def grid(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Grid:
        groups, scales = parts.get("g_idx"), parts["scales"].T.float()
        return _grid(self._zeros(parts["qzeros"]), scales, groups, self.group_size, shape)

    def _zeros(self, words: Tensor) -> Tensor:
        """Returns the zero points, from -2^(bits-1) on; ValueError if they should be 0 and are not.

        1 was taken from complete words, in which a zero point of 0 borrows from the next one.
        """
        ones = sum(1 << place for place in range(0, _WORD, self.bits))
        as_stored, raised = (
            unpacked(stored, self.bits).T - 2 ** (self.bits - 1)
            for stored in (words, (words.long() + ones).to(torch.int32))
        )
        zeros = raised if self.lowered else as_stored
        if self.symmetric is False:
            return zeros
        for points in (as_stored, raised):
            if not points.any():
                return points
        if self.symmetric is None:
            return zeros
        wrong = int(zeros[zeros != 0][0]) + 2 ** (self.bits - 1)
        raise ValueError(
            f"is sym in quantization_config, and has a zero point of {wrong}, not "
            f"{2 ** (self.bits - 1)}; set sym to false if its zero points are right"
        )


@dataclass(frozen=True)
class AwqPacking:
    """AutoAWQ's "gemm" layout of 4 bits: `qweight` int32 (in_features, out_features / 8)."""

    group_size: int
    bits: int = 4
    main: str = "qweight"
    others: tuple[str, ...] = ("qzeros", "scales")

    def shape(self, parts: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
        columns, words = _two(parts, "qweight")
        groups = 1 if self.group_size == -1 else -(-columns // self.group_size)
        _require(parts, "qzeros", (groups, words))
        _require(parts, "scales", (groups, words * 8))
        return words * 8, columns

    def values(self, parts: Mapping[str, Tensor]) -> Tensor:
        return _awq_columns(parts["qweight"]).T - 8

    def grid(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Grid:
        zeros = _awq_columns(parts["qzeros"]).T - 8
        return _grid(zeros, parts["scales"].T.float(), None, self.group_size, shape)


@dataclass(frozen=True)
class CompressedPacking:
    """compressed-tensors' layouts of integers: packed words, or one int8 a weight.

    Attributes:
        bits: 4 or 8.
        group_size: inputs of a group; -1: all of them.
        words: whether `weight_packed` int32 (out_features, in_features * bits / 32) is stored; else
            `weight` int8 (out_features, in_features).
    """

    bits: int
    group_size: int
    words: bool

    @property
    def main(self) -> str:
        return "weight_packed" if self.words else "weight"

    @property
    def others(self) -> tuple[str, ...]:
        parts = ("weight_scale", "weight_zero_point", "weight_g_idx", _SHAPE)
        return (*parts, "input_scale", "input_zero_point")

    def shape(self, parts: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
        rows, columns = _two(parts, self.main)
        columns = columns * _WORD // self.bits if self.words else columns
        scales = parts["weight_scale"]
        if scales not in ((1,), (1, 1)) and (len(scales) != 2 or scales[0] != rows):
            raise ValueError(f"weight_scale is {scales}")
        return rows, columns

    def values(self, parts: Mapping[str, Tensor]) -> Tensor:
        stored = parts[self.main]
        return unpacked(stored, self.bits) - 2 ** (self.bits - 1) if self.words else stored.int()

    def grid(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Grid:
        scales = parts["weight_scale"].float()
        scales = scales.reshape(-1, scales.shape[-1])
        zeros = parts.get("weight_zero_point")
        if zeros is None:
            zeros = torch.zeros((), dtype=torch.int32)
        elif self.words and zeros.dtype == torch.int32:
            zeros = unpacked(zeros.T, self.bits).T - 2 ** (self.bits - 1)
        zeros = zeros.int().reshape(-1, zeros.shape[-1] if zeros.dim() else 1)
        group_size = -1 if scales.shape[1] == 1 else self.group_size
        return _grid(zeros, scales, parts.get("weight_g_idx"), group_size, shape)


def _is_packed(weights: Weights, name: str) -> bool:
    return weights.dtype(name) in (torch.int32, torch.int8)


def _two(parts: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, int]:
    shape = parts[name]
    if len(shape) != 2:
        raise ValueError(f"{name} is {shape}")
    return shape[0], shape[1]


def _require(parts: Mapping[str, tuple[int, ...]], name: str, shape: tuple[int, ...]) -> None:
    if name not in parts:
        raise ValueError(f"{name} is missing")
    if parts[name] != shape:
        raise ValueError(f"{name} is {parts[name]}, not {shape}")


def unpacked(words: Tensor, bits: int) -> Tensor:
    """Unsigned integers of int32 words (rows, n), the lowest bits first: (rows, n * 32 / bits)."""
    shifts = torch.arange(0, _WORD, bits, dtype=torch.int32)
    return ((words[..., None] >> shifts) & (2**bits - 1)).flatten(-2)


def _awq_columns(words: Tensor) -> Tensor:
    """The integers of AWQ's words (rows, n), in the order of their columns: (rows, 8 n)."""
    return unpacked(words, 4).unflatten(-1, (-1, 8))[..., _AWQ_PLACES].flatten(-2)


def _groups(columns: int, group_size: int) -> Tensor:
    """The group of each input (columns,)."""
    size = columns if group_size == -1 else group_size
    return torch.arange(columns) // size


def _grid(
    zeros: Tensor, scales: Tensor, groups: Tensor | None, group_size: int, shape: tuple[int, int]
) -> Grid:
    rows, columns = shape
    scales = scales.expand(rows, -1)
    if groups is None:
        groups = _groups(columns, group_size)
    group_size = columns if group_size == -1 else group_size
    return Grid(zeros[:rows].expand(scales.shape), scales, groups.long(), group_size)
