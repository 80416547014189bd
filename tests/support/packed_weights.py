"""Packed weights taken apart in numpy, and what they compute.

Written from runtime/cpp/kernels/layout/layout.h alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CHOSEN = {2: (7, 2, -2, -7), 3: (8, 5, 3, 1, -1, -3, -5, -8)}
_EPSILON = np.finfo(np.float32).eps  # the smallest scale of a quantized row


@dataclass(frozen=True)
class Weight:
    """A weight taken apart: values * multiples * row_scales, padding cut off.

    Attributes:
        input_group: columns of its input that are rounded together; 0: all.
    """

    values: NDArray
    scales: NDArray
    input_group: int = 0

    def part(self, index: int, count: int) -> "Weight":
        """One of `count` matrices that are stored one behind the other."""
        rows = len(self.values) // count
        here = slice(index * rows, (index + 1) * rows)
        return Weight(self.values[here], self.scales[here], self.input_group)

    def dequantized(self) -> NDArray:
        return (self.values * self.scales).astype(np.float32)

    def product(self, x: NDArray) -> NDArray:
        """x (rows, columns) times the transposed weight; exact sums, one rounding at the end."""
        if self.values.dtype != np.int8:
            return (x.astype(np.float64) @ self.values.T.astype(np.float64)).astype(np.float32)
        if self.input_group:
            return (self._rounded_groups(x) @ (self.values * self.scales).T).astype(np.float32)
        low, high = np.minimum(x.min(axis=1), 0), np.maximum(x.max(axis=1), 0)
        scale = np.maximum((high - low) / np.float32(255), _EPSILON)
        zero_point = np.clip(-128 - np.rint(low / scale), -128, 127)
        q = np.rint(x * (np.float32(1) / scale)[:, None]) + zero_point[:, None]
        exact = (np.clip(q, -128, 127) - zero_point[:, None]) * scale.astype(np.float64)[:, None]
        return (exact @ (self.values * self.scales).T).astype(np.float32)

    def _rounded_groups(self, x: NDArray) -> NDArray:
        padded = np.pad(x, ((0, 0), (0, -x.shape[1] % self.input_group)))
        groups = padded.reshape(len(x), -1, self.input_group)
        largest = np.abs(groups).max(axis=2, keepdims=True)
        scale = np.maximum(largest / np.float32(127), np.finfo(np.float32).tiny)
        q = np.clip(np.rint(groups * (np.float32(1) / scale)), -127, 127)
        return (q * scale.astype(np.float64)).reshape(len(x), -1)[:, : x.shape[1]]


def values_of(bits: int) -> NDArray[np.int8]:
    """The values of the codes 0, 1, 2, ... of so many bits."""
    half = 1 << bits - 1
    return np.array(_CHOSEN.get(bits, range(half - 1, -half - 1, -1)), dtype=np.int8)


def unpack(data: bytes, format: str, rows: int, columns: int, group_size: int) -> Weight:
    """Takes a packed weight apart and checks the sums that it carries."""
    blocks = -(-rows // 16)
    raw = np.frombuffer(data, np.uint8).reshape(blocks, -1)
    if format == "float32":
        values = raw.view(np.float32).reshape(blocks, columns, 16).transpose(0, 2, 1)
        return Weight(values.reshape(-1, columns)[:rows], np.ones((rows, 1)))
    step = max(32, group_size)
    stored = -(-columns // step) * step
    if format == "int8":
        scales, at = raw[:, :64].copy().view(np.float32).reshape(-1, 1), 128
        steps = raw[:, at:].view(np.int8).reshape(blocks, stored // 4, 16, 4)
        values = steps.transpose(0, 2, 1, 3).reshape(-1, stored)
        sums = raw[:, 64:128].copy().view(np.int32).reshape(-1)
        assert np.array_equal(sums, values.sum(axis=1, dtype=np.int32))
        return Weight(values[:rows, :columns], scales[:rows].astype(np.float64))
    groups = stored // group_size
    if format == "int8_groups":
        steps = raw[:, -stored * 16 :].view(np.int8).reshape(blocks, stored // 4, 16, 4)
        values = steps.transpose(0, 2, 1, 3).reshape(-1, stored)
    else:
        bits = int(format[3])
        values = _coded(raw[:, -stored * 2 * bits :], stored, bits)
        values[:, columns:] *= bits > 3  # which have no zero: the sums leave the padding out
    if format.endswith("_two_level"):
        row_scales = raw[:, :64].copy().view(np.float32).reshape(-1, 1)
        words = raw[:, 128 : 128 + -(-groups // 8) * 64].copy().view(np.uint32)
        words = words.reshape(blocks, -1, 16, 1) >> np.arange(0, 32, 4, dtype=np.uint32) & 15
        multiples = words.transpose(0, 2, 1, 3).reshape(blocks * 16, -1)
        assert not multiples[:, groups:].any()
        multiples = multiples[:, :groups].astype(np.int64)
        by_group = values.reshape(-1, groups, group_size).sum(axis=2, dtype=np.int64)
        sums = raw[:, 64:128].copy().view(np.int32).reshape(-1)
        assert np.array_equal(sums, (by_group * multiples).sum(axis=1))
        scales = multiples * row_scales.astype(np.float64)
    else:
        assert format in ("int4", "int8_groups")
        halves = raw[:, : groups * 32].copy().view(np.float16).reshape(blocks, groups, 16)
        scales = halves.transpose(0, 2, 1).reshape(-1, groups).astype(np.float64)
    scales = scales.repeat(group_size, axis=1)
    input_group = 0 if format.endswith("_two_level") else group_size
    return Weight(values[:rows, :columns], scales[:rows, :columns], input_group)


def _coded(raw: NDArray, stored: int, bits: int) -> NDArray:
    steps = raw.reshape(len(raw), stored // 32, bits, 16, 4)  # block, step, line, row, byte
    low = 2 if bits < 4 else 4
    parts = [steps[:, :, :low] >> at & (1 << low) - 1 for at in range(0, 8, low)]
    codes = np.stack(parts, axis=3).reshape(len(raw), stored // 32, 8, 16, 4)
    for quad in range(8) if bits > low else ():
        line, at = divmod(quad * (bits - low), 8)
        codes[:, :, quad] |= (steps[:, :, low + line] >> at & (1 << bits - low) - 1) << low
    values = values_of(bits)[codes]
    return values.transpose(0, 3, 1, 2, 4).reshape(-1, stored)
