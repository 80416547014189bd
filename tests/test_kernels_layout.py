"""The packed weight layout of runtime/cpp/kernels/layout.h, written a second time with numpy.

The C++ packers are loops over single numbers; these are a few whole-array steps each. Both must
give the same bytes.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

BLOCK, LINE = 16, 64
SHAPES = [(1, 32), (16, 64), (17, 100), (40, 257), (33, 640)]


def padded(array: NDArray, rows: int, columns: int, fill: int = 0) -> NDArray:
    """The array (any, any) with `fill` below and to the right, up to (rows, columns)."""
    result = np.full((rows, columns), fill, dtype=array.dtype)
    result[: array.shape[0], : array.shape[1]] = array
    return result


def up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def block_bytes(array: NDArray) -> NDArray:
    """Anything whose first axis is the block: uint8 (blocks, bytes), padded to whole lines."""
    flat = np.ascontiguousarray(array).view(np.uint8).reshape(array.shape[0], -1)
    return np.pad(flat, ((0, 0), (0, -flat.shape[1] % LINE)))


def per_row(values: NDArray, rows: int) -> NDArray:
    """One number a row (any,): (blocks, 16)."""
    return block_bytes(np.pad(values, (0, rows - values.size)).reshape(-1, BLOCK))


def nibbles(values: NDArray, rows: int, columns: int) -> NDArray:
    stored = (7 - padded(values, rows, columns)).astype(np.uint8)
    steps = stored.reshape(-1, BLOCK, columns // 8, 2, 4)  # block, row, step, half, byte
    low, high = steps[:, :, :, 0], steps[:, :, :, 1]
    return block_bytes((low | high << 4).transpose(0, 2, 1, 3))


def pack_int4_two_level(
    values: NDArray, multiples: NDArray, row_scales: NDArray, group_size: int
) -> bytes:
    rows, columns = up(values.shape[0], BLOCK), up(values.shape[1], group_size)
    groups = up(multiples.shape[1], 8)
    expanded = multiples.repeat(group_size, axis=1)[:, : values.shape[1]].astype(np.int32)
    row_sums = (values * expanded).sum(axis=1, dtype=np.int32)
    pairs = padded(multiples, rows, groups).reshape(-1, BLOCK, groups // 8, 4, 2)
    scales = (pairs[..., 0] | pairs[..., 1] << 4).transpose(0, 2, 1, 3)
    parts = [per_row(row_scales, rows), per_row(row_sums, rows), block_bytes(scales)]
    return np.concatenate([*parts, nibbles(values, rows, columns)], axis=1).tobytes()


def pack_int4(values: NDArray, scales: NDArray, group_size: int) -> bytes:
    """Scales as the bits of bfloat16, uint16."""
    rows, columns = up(values.shape[0], BLOCK), up(values.shape[1], group_size)
    groups = scales.shape[1]
    group_sums = padded(values, rows, columns).reshape(rows, groups, -1).sum(axis=2)
    all_scales = padded(scales, rows, groups)
    floats = (all_scales.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    row_sums = np.zeros(rows)
    for group in range(groups):  # in order, as float addition asks
        row_sums += floats[:, group] * group_sums[:, group]
    by_group = all_scales.reshape(-1, BLOCK, groups).transpose(0, 2, 1)
    parts = [per_row(row_sums.astype(np.float32), rows), block_bytes(by_group)]
    return np.concatenate([*parts, nibbles(values, rows, columns)], axis=1).tobytes()


def pack_int8(values: NDArray, row_scales: NDArray) -> bytes:
    rows, columns = up(values.shape[0], BLOCK), up(values.shape[1], 32)
    row_sums = values.sum(axis=1, dtype=np.int32)
    steps = padded(values, rows, columns).reshape(-1, BLOCK, columns // 4, 4)
    parts = [per_row(row_scales, rows), per_row(row_sums, rows)]
    return np.concatenate([*parts, block_bytes(steps.transpose(0, 2, 1, 3))], axis=1).tobytes()


def pack_float32(values: NDArray) -> bytes:
    rows, columns = up(values.shape[0], BLOCK), values.shape[1]
    return padded(values, rows, columns).reshape(-1, BLOCK, columns).transpose(0, 2, 1).tobytes()


def reference(
    build: Path, name: str, shape: tuple[int, int], group_size: int, *arrays: NDArray
) -> bytes:
    command = [build / "kernel_pack_cli", name, *map(str, (*shape, group_size))]
    given = b"".join(array.tobytes() for array in arrays)
    result = subprocess.run(command, input=given, capture_output=True)
    assert result.returncode == 0
    return result.stdout


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_int4(cpp_build: Path, shape: tuple[int, int], group_size: int) -> None:
    random = np.random.default_rng(1)
    rows, groups = shape[0], -(-shape[1] // group_size)
    values = random.integers(-8, 8, shape, dtype=np.int8)
    multiples = random.integers(1, 16, (rows, groups), dtype=np.uint8)
    row_scales = random.random(rows, dtype=np.float32)
    expected = reference(
        cpp_build, "int4_two_level", shape, group_size, values, multiples, row_scales
    )
    assert pack_int4_two_level(values, multiples, row_scales, group_size) == expected

    scales = random.integers(0x3C00, 0x3D00, (rows, groups), dtype=np.uint16)
    expected = reference(cpp_build, "int4", shape, group_size, values, scales)
    assert pack_int4(values, scales, group_size) == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_and_float32(cpp_build: Path, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(2)
    values = random.integers(-128, 128, shape, dtype=np.int8)
    row_scales = random.random(shape[0], dtype=np.float32)
    assert pack_int8(values, row_scales) == reference(
        cpp_build, "int8", shape, 0, values, row_scales
    )
    floats = random.random(shape, dtype=np.float32)
    assert pack_float32(floats) == reference(cpp_build, "float32", shape, 0, floats)
