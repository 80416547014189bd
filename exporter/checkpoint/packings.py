"""How GPTQ, AWQ and compressed-tensors lay out a weight's integers, scales and zero points."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

WORD = 32  # bits of a packed integer
SHAPE = "weight_shape"  # the suffix of a tensor that holds the shape of a weight
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
        reordered: whether inputs are (desc_act): `g_idx` then says of which group each is.
    """

    bits: int
    group_size: int
    lowered: bool
    symmetric: bool | None = None
    reordered: bool = False
    main: str = "qweight"
    others: tuple[str, ...] = ("qzeros", "scales", "g_idx")

    def shape(self, parts: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
        words, rows = _two(parts, "qweight")
        columns = words * WORD // self.bits
        groups = 1 if self.group_size == -1 else -(-columns // self.group_size)
        _require(parts, "scales", (groups, rows))
        _require(parts, "qzeros", (groups, rows * self.bits // WORD))
        if "g_idx" in parts or (self.reordered and groups > 1):
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
        ones = sum(1 << place for place in range(0, WORD, self.bits))
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
        parts = ("weight_scale", "weight_zero_point", "weight_g_idx", SHAPE)
        return (*parts, "input_scale", "input_zero_point")

    def shape(self, parts: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
        rows, columns = _two(parts, self.main)
        columns = columns * WORD // self.bits if self.words else columns
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
    """Unsigned integers of int32 words (rows, n), the lowest bits first: (rows, n * 32 / bits).

    Where a word has no room for the last one, its upper bits are in the next word.
    """
    if WORD % bits == 0:
        shifts = torch.arange(0, WORD, bits, dtype=torch.int32)
        return ((words[..., None] >> shifts) & (2**bits - 1)).flatten(-2)
    octets = words.contiguous().view(torch.uint8).unflatten(-1, (-1, bits)).long()  # 8 integers
    joined = (octets << (8 * torch.arange(bits))).sum(-1)
    shifts = torch.arange(0, 8 * bits, bits)
    return ((joined[..., None] >> shifts) & (2**bits - 1)).flatten(-2).int()


def _awq_columns(words: Tensor) -> Tensor:
    """The integers of AWQ's words (rows, n), in the order of their columns: (rows, 8 n)."""
    return unpacked(words, 4).unflatten(-1, (-1, 8))[..., _AWQ_PLACES].flatten(-2)


def groups_of(columns: int, group_size: int) -> Tensor:
    """The group of each input (columns,)."""
    size = columns if group_size == -1 else group_size
    return torch.arange(columns) // size


def _grid(
    zeros: Tensor, scales: Tensor, groups: Tensor | None, group_size: int, shape: tuple[int, int]
) -> Grid:
    rows, columns = shape
    scales = scales.expand(rows, -1)
    if groups is None:
        groups = groups_of(columns, group_size)
    group_size = columns if group_size == -1 else group_size
    return Grid(zeros[:rows].expand(scales.shape), scales, groups.long(), group_size)
