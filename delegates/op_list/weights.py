"""The packed weights of a program, each matrix once, and its few other floats in one blob."""

import io
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.fx import Node

from delegates.errors import DelegateError
from delegates.op_list.graph import Constants
from delegates.op_list.layout import BLOCK_ROWS, CHOSEN, MOST_MULTIPLE, Format, round_up
from delegates.op_list.matrix import Matrix, MatrixSource
from delegates.op_list.ops import Floats
from delegates.op_list.pack import (
    pack_float32,
    pack_int4,
    pack_int8,
    pack_int8_groups,
    pack_two_level,
)
from delegates.op_list.scales import find_two_levels
from delegates.source_lines import shown_name


def pack(matrix: Matrix, constants: Constants) -> bytes:
    """Packs a matrix in the layout of runtime/cpp/kernels/layout/layout.h.

    Raises:
        DelegateError: a scale is not a number, or the format cannot hold it.
    """
    if matrix.experts > 1:
        packed = io.BytesIO()
        for one in matrix.each:
            packed.write(pack(one, constants))
        return packed.getvalue()  # the buffer's own bytes, not a copy
    values = _joined(matrix, [_rows(constants.tensor(s.values)) for s in matrix.sources])
    if matrix.format is Format.FLOAT32:
        return pack_float32(values)
    for source in matrix.sources:
        _check(source, constants)
    scales = _joined(
        matrix, [_rows(constants.tensor(s.scales)) for s in matrix.sources if s.scales is not None]
    )
    columns, group_size = matrix.columns, matrix.group_size
    if matrix.format is Format.INT8:
        return pack_int8(values, scales[:, 0], columns)
    scales = scales[:, : -(-columns // group_size)]
    if matrix.format is Format.INT4:
        return pack_int4(values, scales, columns, group_size)
    if matrix.format is Format.INT8_GROUPS:
        return pack_int8_groups(values, scales, columns, group_size)
    most = MOST_MULTIPLE[matrix.format]
    levels = find_two_levels(scales, most)
    if levels is None:
        name = shown_name(constants.name(matrix.sources[0].values) or "a weight")
        raise DelegateError(
            f"{name} has scales that are not an integer of 1 to {most} times a number of their "
            "row: quantize it again."
        )
    return pack_two_level(matrix.format, values, levels, columns, group_size)


def _rows(tensor: Tensor) -> NDArray:
    return tensor.reshape(-1, tensor.shape[-1]).contiguous().numpy()


def _joined(matrix: Matrix, parts: list[NDArray]) -> NDArray:
    """Joins the parts one below the other, or in alternating blocks of 16 rows, padded with zeros;
    those of experts each so."""
    if matrix.experts > 1:
        size, rows = len(parts) // matrix.experts, matrix.rows // matrix.experts
        by_expert = [
            _joined(one, parts[at * size : (at + 1) * size]) for at, one in enumerate(matrix.each)
        ]
        return np.concatenate([np.pad(part, ((0, rows - len(part)), (0, 0))) for part in by_expert])
    if len(parts) == 1:
        return parts[0]
    if not matrix.interleaved:
        return np.concatenate(parts)
    rows, columns = round_up(parts[0].shape[0], BLOCK_ROWS), parts[0].shape[1]
    joined = np.zeros((rows // BLOCK_ROWS, len(parts), BLOCK_ROWS, columns), parts[0].dtype)
    for index, part in enumerate(parts):
        whole = part.shape[0] // BLOCK_ROWS
        joined[:whole, index] = part[: whole * BLOCK_ROWS].reshape(whole, BLOCK_ROWS, columns)
        rest = part[whole * BLOCK_ROWS :]
        if len(rest):
            joined[whole, index, : len(rest)] = rest
    return joined.reshape(-1, columns)


def _check(source: MatrixSource, constants: Constants) -> None:
    assert source.scales is not None
    name = shown_name(constants.name(source.values) or "a weight")
    scales = constants.tensor(source.scales)
    if not bool(torch.isfinite(scales).all()):
        raise DelegateError(f"{name} has a scale that is not a number: quantize it again.")
    chosen = CHOSEN.get(source.format)
    if chosen is not None:
        values = constants.tensor(source.values)
        if not bool(torch.isin(values, torch.tensor(chosen, dtype=values.dtype)).all()):
            raise DelegateError(
                f"{name} has values that {source.format.bits} bits do not hold; they hold "
                f"{', '.join(map(str, chosen))}: quantize it again."
            )
    if source.format in (Format.INT4, Format.INT8_GROUPS) and not torch.equal(
        scales, scales.half().float()
    ):
        raise DelegateError(
            f"{name} has scales that are not exact in float16, in which each group stores its own: "
            "round the scales before quantizing."
        )


class FloatBlob:
    """The blob of floats as it grows; equal numbers are stored once."""

    _LINE = 16  # floats; what is stored starts at a line of 64 bytes

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._parts: list[NDArray[np.float32]] = []
        self._size = 0
        self._known: dict[tuple[object, ...], Floats] = {}

    def vector(self, node: Node) -> Floats:
        """Stores a one-dimensional tensor."""
        return self._store((node.name,), self._constants.tensor(node).float().numpy())

    def ones(self, length: int) -> Floats:
        return self._store(("ones", length), np.ones(length, np.float32))

    def taps(self, node: Node) -> Floats:
        """Stores the weight of a convolution (width, 1, kernel_size), a row for each position."""
        taps = self._constants.tensor(node).float().squeeze(1).T
        return self._store(("taps", node.name), taps.contiguous().numpy().reshape(-1))

    def half_table(self, node: Node) -> Floats:
        """Stores the second half of every row of a table (length, 1, head_dim)."""
        key = ("half", node.name)
        if key in self._known:
            return self._known[key]
        half = self._constants.tensor(node).chunk(2, dim=-1)[1]
        return self._store(key, half.contiguous().numpy().reshape(-1))

    def biases(self, matrix: Matrix, biases: Sequence[Node | None]) -> Floats | None:
        """Stores a number for each row of a matrix, in its order; None if there is no bias."""
        if not any(biases):
            return None
        parts = [
            np.zeros((source.rows, 1), np.float32)
            if bias is None
            else self._constants.tensor(bias).float().numpy().reshape(-1, 1)
            for source, bias in zip(matrix.sources, biases, strict=True)
        ]
        key = tuple(bias.name if bias is not None else None for bias in biases)
        numbers = _joined(matrix, parts).reshape(-1)
        return self._store(("bias", matrix.interleaved, matrix.experts, *key), numbers)

    def data(self) -> bytes:
        return b"".join(part.tobytes() for part in self._parts)

    def _store(self, key: tuple[object, ...], numbers: NDArray[np.float32]) -> Floats:
        if key not in self._known:
            self._known[key] = Floats(self._size, numbers.size)
            padding = -numbers.size % self._LINE
            self._parts.append(np.pad(numbers.astype(np.float32), (0, padding)))
            self._size += numbers.size + padding
        return self._known[key]
