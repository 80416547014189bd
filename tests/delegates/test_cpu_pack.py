"""Two levels are found in scales wherever they are, exactly; every weight packs to what it says."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.packed_weights import unpack, values_of
from torch import Tensor

from delegates.op_list.layout import MOST_MULTIPLE, Format, packed_bytes
from delegates.op_list.pack import (
    pack_float32,
    pack_int4,
    pack_int8,
    pack_int8_groups,
    pack_two_level,
)
from delegates.op_list.scales import find_two_levels
from quant.rounding.scales import rtn_scales, searched_scales

GROUP = 32


def check_levels(scales: NDArray[np.float32], most: int = 15) -> None:
    levels = find_two_levels(scales, most)
    assert levels is not None
    assert levels.multiples.min() >= 1 and levels.multiples.max() <= most
    product = levels.multiples.astype(np.float64) * levels.row_scales[:, None]
    assert np.array_equal(product, scales.astype(np.float64))


def rows_of_all_sizes() -> Tensor:
    """Rows of ordinary numbers, of huge and tiny ones, of zeros, and with one outlier."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 256, generator=generator)
    weight[1] *= 2.0**100
    weight[2] *= 2.0**-80
    weight[3] = 0
    weight[4] = 0.25
    weight[5, 7] = 1000
    weight[6] *= torch.logspace(-3, 0, 256)
    return weight


@pytest.mark.parametrize("make", [rtn_scales, searched_scales])
def test_the_scales_that_we_make_come_apart(make: Any) -> None:
    scales = make(rows_of_all_sizes(), GROUP)
    check_levels(scales.product().numpy())


@pytest.mark.parametrize("most", MOST_MULTIPLE.values())
def test_every_pair_of_multiples_comes_apart(most: int) -> None:
    each = np.arange(1, most + 1)
    multiples = np.stack(np.meshgrid(each, each), axis=-1).reshape(-1, 2)
    mantissas = np.arange(8, 16, dtype=np.float32)  # every row scale of 4 significant bits
    scales = multiples[:, None] * (mantissas[:, None] * np.float32(2.0**-9))
    check_levels(scales.reshape(-1, 2).astype(np.float32), most)


def test_rows_without_levels_are_recognised() -> None:
    good = np.float32([[1, 2, 3], [0, 0, 0], [5, 15, 10]]) / 64
    check_levels(good)
    for bad in ([1, 16, 2], [1, 1.0078125, 2], [0, 1, 2], [1, -1, 2], [-1, -1, -2]):
        assert find_two_levels(np.concatenate([good, np.float32([bad])]), 15) is None
    fine = np.float32([[1, 4, 2], [2, 8, 6]])
    check_levels(fine, 4)
    assert find_two_levels(np.concatenate([fine, np.float32([[1, 5, 2]])]), 4) is None


@pytest.mark.parametrize("rows", [1, 16, 50])
@pytest.mark.parametrize("columns", [1, 31, 96, 200])
@pytest.mark.parametrize("group_size", [32, 128])
def test_packed_weights_come_apart(rows: int, columns: int, group_size: int) -> None:
    random = np.random.default_rng(rows * columns)
    stored = -(-columns // group_size) * group_size
    row_scales = random.integers(8, 16, (rows, 1)).astype(np.float32) / 256
    facts: dict[str, Any] = dict(rows=rows, columns=columns, group_size=group_size)
    for format, most in reversed(MOST_MULTIPLE.items()):  # int4's numbers are used below
        values = random.choice(values_of(format.bits), (rows, stored))  # padding is not zero
        values[:, :1] = values_of(format.bits).min()
        multiples = random.integers(1, most + 1, (rows, stored // group_size)).astype(np.float32)
        scales = multiples * row_scales
        wanted = (values * scales.repeat(group_size, axis=1))[:, :columns]
        levels = find_two_levels(scales, most)
        assert levels is not None
        two = pack_two_level(format, values, levels, columns, group_size)
        assert len(two) == packed_bytes(format, rows, columns, group_size)
        assert np.array_equal(unpack(two, format.name.lower(), **facts).dequantized(), wanted)
    one = pack_int4(values, scales, columns, group_size)
    assert len(one) == packed_bytes(Format.INT4, rows, columns, group_size)
    assert np.array_equal(unpack(one, "int4", **facts).dequantized(), wanted)

    wide = random.integers(-128, 128, (rows, stored), dtype=np.int8)
    wanted_wide = (wide * scales.repeat(group_size, axis=1))[:, :columns]
    groups = pack_int8_groups(wide, scales, columns, group_size)
    assert len(groups) == packed_bytes(Format.INT8_GROUPS, rows, columns, group_size)
    assert np.array_equal(unpack(groups, "int8_groups", **facts).dequantized(), wanted_wide)

    facts["group_size"] = 0
    wide = random.integers(-128, 128, (rows, columns), dtype=np.int8)
    eight = pack_int8(wide, row_scales[:, 0], columns)
    assert len(eight) == packed_bytes(Format.INT8, rows, columns, 0)
    assert np.array_equal(unpack(eight, "int8", **facts).dequantized(), wide * row_scales)
    plain = pack_float32(wanted)
    assert len(plain) == packed_bytes(Format.FLOAT32, rows, columns, 0)
    assert np.array_equal(unpack(plain, "float32", **facts).dequantized(), wanted)


def test_a_large_weight_takes_the_bits_that_it_should() -> None:
    shape = (8192, 2048)
    bits = {
        format: packed_bytes(format, *shape, group) * 8 / (shape[0] * shape[1])
        for format, group in (
            (Format.INT2_TWO_LEVEL, 32),
            (Format.INT3_TWO_LEVEL, 64),
            (Format.INT4_TWO_LEVEL, 32),
            (Format.INT5_TWO_LEVEL, 32),
            (Format.INT6_TWO_LEVEL, 128),
            (Format.INT4, 32),
            (Format.INT8, 0),
            (Format.INT8_GROUPS, 32),
        )
    }
    # Beside the integers and the groups' scales: a float and a sum for each row.
    assert bits[Format.INT2_TWO_LEVEL] == 2 + 4 / 32 + 64 / 2048
    assert bits[Format.INT3_TWO_LEVEL] == 3 + 4 / 64 + 64 / 2048
    assert bits[Format.INT4_TWO_LEVEL] == 4 + 4 / 32 + 64 / 2048
    assert bits[Format.INT5_TWO_LEVEL] == 5 + 4 / 32 + 64 / 2048
    assert bits[Format.INT6_TWO_LEVEL] == 6 + 4 / 128 + 64 / 2048
    assert bits[Format.INT4] == 4 + 16 / 32
    assert bits[Format.INT8] == 8 + 64 / 2048
    assert bits[Format.INT8_GROUPS] == 8 + 16 / 32
