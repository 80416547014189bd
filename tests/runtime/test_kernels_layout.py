"""The layout of weights, runtime/cpp/kernels/layout/layout.h, has two writers, which must agree.

The C++ packers are loops over single numbers; those of delegates/op_list/pack.py are a few
whole-array steps for many rows.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.packed_weights import values_of

from delegates.op_list.layout import MOST_MULTIPLE
from delegates.op_list.pack import (
    pack_float32,
    pack_int4,
    pack_int8,
    pack_int8_groups,
    pack_two_level,
)
from delegates.op_list.scales import TwoLevels

SHAPES = [(1, 32), (16, 64), (17, 100), (40, 257), (33, 640), (4099, 1024)]


def reference(
    build: Path, name: str, shape: tuple[int, int], group_size: int, *arrays: NDArray
) -> bytes:
    command = [build / "kernel_pack_cli", name, *map(str, (*shape, group_size))]
    given = b"".join(array.tobytes() for array in arrays)
    result = subprocess.run(command, input=given, capture_output=True)
    assert result.returncode == 0
    return result.stdout


def float16_scales(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float16]:
    """Finite ones of every size and sign."""
    return (
        (random.integers(0, 0x7C00, shape) | random.integers(0, 2, shape) << 15)
        .astype(np.uint16)
        .view(np.float16)
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_two_levels(cpp_build: Path, shape: tuple[int, int], group_size: int) -> None:
    random = np.random.default_rng(1)
    rows, groups = shape[0], -(-shape[1] // group_size)
    row_scales = random.random(rows, dtype=np.float32)
    for format, most in MOST_MULTIPLE.items():
        values = random.choice(values_of(format.bits), shape)
        multiples = random.integers(1, most + 1, (rows, groups), dtype=np.uint8)
        name = format.name.lower()
        expected = reference(cpp_build, name, shape, group_size, values, multiples, row_scales)
        levels = TwoLevels(multiples, row_scales)
        assert pack_two_level(format, values, levels, shape[1], group_size) == expected


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_int4(cpp_build: Path, shape: tuple[int, int], group_size: int) -> None:
    random = np.random.default_rng(1)
    values = random.integers(-8, 8, shape, dtype=np.int8)
    scales = float16_scales(random, (shape[0], -(-shape[1] // group_size)))
    expected = reference(cpp_build, "int4", shape, group_size, values, scales)
    assert pack_int4(values, scales.astype(np.float32), shape[1], group_size) == expected


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_int8_groups(cpp_build: Path, shape: tuple[int, int], group_size: int) -> None:
    random = np.random.default_rng(3)
    values = random.integers(-128, 128, shape, dtype=np.int8)
    scales = float16_scales(random, (shape[0], -(-shape[1] // group_size)))
    expected = reference(cpp_build, "int8_groups", shape, group_size, values, scales)
    assert pack_int8_groups(values, scales.astype(np.float32), shape[1], group_size) == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_and_float32(cpp_build: Path, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(2)
    values = random.integers(-128, 128, shape, dtype=np.int8)
    row_scales = random.random(shape[0], dtype=np.float32)
    assert pack_int8(values, row_scales, shape[1]) == reference(
        cpp_build, "int8", shape, 0, values, row_scales
    )
    floats = random.random(shape, dtype=np.float32)
    assert pack_float32(floats) == reference(cpp_build, "float32", shape, 0, floats)
