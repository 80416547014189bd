"""Packs weights as runtime/cpp/kernels/layout/layout.h says, a few whole-array steps for many rows.

Every function takes the rows a piece at a time, so that what it needs beside the weight and its
packed bytes is small, and gives the packed bytes without a second copy of them.
"""

import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from delegates.op_list.layout import (
    BLOCK_ROWS,
    CHOSEN,
    COLUMN_STEP,
    BlockLayout,
    Format,
    block_layout,
    round_up,
    stored_columns,
)
from delegates.op_list.scales import TwoLevels

_PIECE = 1 << 20  # values that are worked on at once: about what a cache holds


def pack_two_level(
    format: Format, values: NDArray[np.int8], scales: TwoLevels, columns: int, group_size: int
) -> bytes:
    """The formats of MOST_MULTIPLE.

    Args:
        values: int8 (rows, columns or more) that the format holds; what lies beyond `columns` is
            dropped.
        scales: of all its rows, for ceil(columns / group_size) groups or more.
    """
    stored = stored_columns(format, columns, group_size)
    layout = block_layout(format, stored, group_size)
    groups = stored // group_size

    def fill(rows: slice, blocks: NDArray[np.uint8]) -> None:
        piece = _padded(values[rows, :columns], len(blocks), stored)
        multiples = _padded(scales.multiples[rows, :groups], len(blocks), round_up(groups, 8))
        by_group = piece.reshape(-1, groups, group_size).sum(axis=2, dtype=np.int32)
        row_sums = (by_group * multiples[:, :groups]).sum(axis=1, dtype=np.int32)
        _store(blocks, 0, _padded(scales.row_scales[rows, None], len(blocks), 1))
        _store(blocks, 64, row_sums)
        pairs = multiples.reshape(-1, BLOCK_ROWS, round_up(groups, 8) // 8, 4, 2)
        packed = (pairs[..., 0] | pairs[..., 1] << 4).transpose(0, 2, 1, 3)
        _store(blocks, layout.scales, packed)
        _store_codes(blocks, layout, _codes(piece, format), format.bits)

    return _fill_blocks(values.shape[0], stored, layout, fill)


def pack_int4(
    values: NDArray[np.int8], scales: NDArray[np.float32], columns: int, group_size: int
) -> bytes:
    """`kInt4`.

    Args:
        values: int8 (rows, columns or more) in -8..7; what lies beyond `columns` is dropped.
        scales: float32 (rows, ceil(columns / group_size) or more), exact in float16.
    """

    def store(blocks: NDArray[np.uint8], layout: BlockLayout, piece: NDArray[np.int8]) -> None:
        _store_codes(blocks, layout, _codes(piece, Format.INT4), 4)

    return _pack_groups(Format.INT4, store, values, scales, columns, group_size)


def pack_int8_groups(
    values: NDArray[np.int8], scales: NDArray[np.float32], columns: int, group_size: int
) -> bytes:
    """`kInt8Groups`.

    Args:
        values: int8 (rows, columns or more); what lies beyond `columns` is dropped.
        scales: float32 (rows, ceil(columns / group_size) or more), exact in float16.
    """
    return _pack_groups(Format.INT8_GROUPS, _store_bytes, values, scales, columns, group_size)


def _pack_groups(
    format: Format,
    store: Callable[[NDArray[np.uint8], BlockLayout, NDArray[np.int8]], None],
    values: NDArray[np.int8],
    scales: NDArray[np.float32],
    columns: int,
    group_size: int,
) -> bytes:
    """A format with a float16 scale for each group."""
    stored = stored_columns(format, columns, group_size)
    layout = block_layout(format, stored, group_size)
    groups = stored // group_size

    def fill(rows: slice, blocks: NDArray[np.uint8]) -> None:
        piece = _padded(values[rows, :columns], len(blocks), stored)
        piece_scales = _padded(scales[rows, :groups], len(blocks), groups)
        bits = piece_scales.astype(np.float16).view(np.uint16)
        _store(blocks, layout.scales, bits.reshape(-1, BLOCK_ROWS, groups).transpose(0, 2, 1))
        store(blocks, layout, piece)

    return _fill_blocks(values.shape[0], stored, layout, fill)


def pack_int8(values: NDArray[np.int8], row_scales: NDArray[np.float32], columns: int) -> bytes:
    """`kInt8`.

    Args:
        values: int8 (rows, columns or more); what lies beyond `columns` is dropped.
        row_scales: float32 (rows,).
    """
    stored = round_up(columns, COLUMN_STEP)
    layout = block_layout(Format.INT8, stored, 0)

    def fill(rows: slice, blocks: NDArray[np.uint8]) -> None:
        piece = _padded(values[rows, :columns], len(blocks), stored)
        _store(blocks, 0, _padded(row_scales[rows, None], len(blocks), 1))
        _store(blocks, 64, piece.sum(axis=1, dtype=np.int32))
        _store_bytes(blocks, layout, piece)

    return _fill_blocks(values.shape[0], stored, layout, fill)


def pack_float32(values: NDArray[np.float32]) -> bytes:
    """`kFloat32`, of values (rows, columns)."""
    columns = values.shape[1]
    layout = block_layout(Format.FLOAT32, columns, 0)

    def fill(rows: slice, blocks: NDArray[np.uint8]) -> None:
        piece = _padded(values[rows], len(blocks), columns)
        _store(blocks, 0, piece.reshape(-1, BLOCK_ROWS, columns).transpose(0, 2, 1))

    return _fill_blocks(values.shape[0], columns, layout, fill)


def _fill_blocks(
    rows: int,
    columns: int,
    layout: BlockLayout,
    fill: Callable[[slice, NDArray[np.uint8]], None],
) -> bytes:
    """Zeros for all blocks of a weight, filled piece by piece."""
    count = -(-rows // BLOCK_ROWS)
    buffer = io.BytesIO()
    if count:
        buffer.seek(count * layout.bytes - 1)
        buffer.write(b"\0")  # the bytes before it are zeros
    with buffer.getbuffer() as memory:
        blocks = np.frombuffer(memory, dtype=np.uint8).reshape(count, layout.bytes)
        step = max(1, _PIECE // (BLOCK_ROWS * columns))
        for start in range(0, count, step):
            end = min(start + step, count)
            fill(slice(start * BLOCK_ROWS, min(end * BLOCK_ROWS, rows)), blocks[start:end])
        del blocks
    return buffer.getvalue()  # the buffer's own bytes, not a copy


def _padded(array: NDArray, blocks: int, columns: int) -> NDArray:
    """The array (any, any) with zeros below and to the right: (16 * blocks, columns)."""
    rows = blocks * BLOCK_ROWS
    if array.shape == (rows, columns) and array.flags.c_contiguous:
        return array
    result = np.zeros((rows, columns), dtype=array.dtype)
    result[: array.shape[0], : array.shape[1]] = array
    return result


def _store(blocks: NDArray[np.uint8], offset: int, part: NDArray) -> None:
    """Writes an array whose first axis is the rows or the blocks into every block."""
    if len(part) != len(blocks):
        part = part.reshape(len(blocks), BLOCK_ROWS)
    size = part.nbytes // len(blocks)
    target = blocks[:, offset : offset + size].view(part.dtype)
    target.reshape(part.shape)[...] = part  # the reshape splits an axis: a view


def _codes(values: NDArray[np.int8], format: Format) -> NDArray[np.uint8]:
    """int8 (rows, columns) as codes: largest - value, or the place among the chosen values; of
    zeros in the padding, the code of the largest below."""
    if format in CHOSEN:
        table = [sum(value > number for value in CHOSEN[format]) for number in range(-8, 9)]
        return np.array(table, dtype=np.uint8)[values + 8]
    all_bits, largest = np.uint8((1 << format.bits) - 1), np.uint8((1 << format.bits - 1) - 1)
    return (values.view(np.uint8) & all_bits) ^ largest  # modulo 1 << bits


def _store_codes(
    blocks: NDArray[np.uint8], layout: BlockLayout, codes: NDArray[np.uint8], bits: int
) -> None:
    """uint8 (rows, columns): of 32 columns of 16 rows 4 lines of low nibbles, or of 2 and 3 bits 2
    of the low two bits, and lines of what is above."""
    quads = codes.view(np.uint32).reshape(len(blocks), BLOCK_ROWS, -1, 8)
    lines = np.zeros((*quads.shape[:3], bits), dtype=np.uint32)
    low = 2 if bits < 4 else 4
    for quad in range(8):
        line, at = divmod(quad * low, 8)
        lines[..., line] |= (quads[..., quad] & _four((1 << low) - 1)) << np.uint32(at)
        line, at = divmod(quad * (bits - low), 8)
        if bits > low:
            above = (quads[..., quad] & _four((1 << bits) - (1 << low))) >> np.uint32(low)
            lines[..., low + line] |= above << np.uint32(at)
    _store(blocks, layout.values, lines.transpose(0, 2, 3, 1))


def _four(byte: int) -> np.uint32:
    """A byte in each of four."""
    return np.uint32(byte * 0x01010101)


def _store_bytes(blocks: NDArray[np.uint8], layout: BlockLayout, values: NDArray[np.int8]) -> None:
    """int8 (rows, columns), 4 columns of 16 rows to a line."""
    steps = values.view(np.uint32).reshape(len(blocks), BLOCK_ROWS, -1)
    _store(blocks, layout.values, steps.transpose(0, 2, 1))
