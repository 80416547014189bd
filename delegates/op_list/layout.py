"""The sizes of runtime/cpp/kernels/layout/layout.h: how packed weights lie in memory."""

from dataclasses import dataclass
from enum import IntEnum

from delegates.storage import FLOAT_BITS, FileSizes, StoredAs

BLOCK_ROWS = 16
LINE_BYTES = 64
COLUMN_STEP = 32
MOST_COLUMNS = 65536  # beyond it the largest sum leaves int32
GROUP_SIZES = (32, 64, 128)
PAGE_BYTES = 16384  # a weight starts at one in the file; Apple's systems have pages so large


class Format(IntEnum):
    """WeightFormat there, Format in program.fbs."""

    INT4_TWO_LEVEL = 0
    INT5_TWO_LEVEL = 1
    INT6_TWO_LEVEL = 2
    INT4 = 3
    INT8 = 4
    INT8_GROUPS = 5
    FLOAT32 = 6
    INT2_TWO_LEVEL = 7
    INT3_TWO_LEVEL = 8

    @property
    def bits(self) -> int:
        """Of a value."""
        return _BITS[self]

    @property
    def levels(self) -> int:
        """Of the scales."""
        return _LEVELS.get(self, 1)


# By bits, whether a row has several scales, and the levels of these.
FORMATS = {
    (2, True, 2): Format.INT2_TWO_LEVEL,
    (3, True, 2): Format.INT3_TWO_LEVEL,
    (4, True, 2): Format.INT4_TWO_LEVEL,
    (5, True, 2): Format.INT5_TWO_LEVEL,
    (6, True, 2): Format.INT6_TWO_LEVEL,
    (4, True, 1): Format.INT4,
    (8, False, 1): Format.INT8,
    (8, True, 1): Format.INT8_GROUPS,
}
_BITS = {format: bits for (bits, _, _), format in FORMATS.items()} | {Format.FLOAT32: FLOAT_BITS}
_LEVELS = {format: levels for (_, _, levels), format in FORMATS.items()}
# Of the formats with two levels, the largest integer of a group.
MOST_MULTIPLE = {
    Format.INT2_TWO_LEVEL: 15,
    Format.INT3_TWO_LEVEL: 15,
    Format.INT4_TWO_LEVEL: 15,
    Format.INT5_TWO_LEVEL: 8,
    Format.INT6_TWO_LEVEL: 4,
}
# Of the formats that do not hold every integer of their bits: a code's value, falling.
CHOSEN = {
    Format.INT2_TWO_LEVEL: (7, 2, -2, -7),
    Format.INT3_TWO_LEVEL: (8, 5, 3, 1, -1, -3, -5, -8),
}


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


@dataclass(frozen=True)
class BlockLayout:
    """Where the parts of a block of 16 rows start, in bytes from its own start."""

    scales: int
    values: int
    bytes: int


def stored_columns(format: Format, columns: int, group_size: int) -> int:
    """Columns with their padding; those of a float32 weight have none."""
    if format is Format.FLOAT32:
        return columns
    return round_up(columns, max(group_size, COLUMN_STEP))


def block_layout(format: Format, columns: int, group_size: int) -> BlockLayout:
    """The parts of a block of a weight with so many stored columns."""
    value_bytes = columns * BLOCK_ROWS * format.bits // 8
    if format in MOST_MULTIPLE:
        values = (2 + -(-columns // group_size // 8)) * LINE_BYTES
        return BlockLayout(2 * LINE_BYTES, values, values + value_bytes)
    if format in (Format.INT4, Format.INT8_GROUPS):
        scale_bytes = columns // group_size * BLOCK_ROWS * 2
        values = round_up(scale_bytes, LINE_BYTES)
        return BlockLayout(0, values, values + value_bytes)
    if format is Format.INT8:
        return BlockLayout(0, 2 * LINE_BYTES, 2 * LINE_BYTES + value_bytes)
    return BlockLayout(0, 0, value_bytes)


def packed_bytes(format: Format, rows: int, columns: int, group_size: int) -> int:
    """What a whole weight takes, its columns not yet padded."""
    stored = stored_columns(format, columns, group_size)
    blocks = -(-rows // BLOCK_ROWS)
    return blocks * block_layout(format, stored, group_size).bytes


def weight_bytes(rows: int, columns: int, type: StoredAs) -> int:
    """The same of a weight of a type."""
    format = FORMATS[type.bits, type.group_size > 0, type.levels]
    return packed_bytes(format, rows, columns, type.group_size)


WEIGHT_BITS = (4, 5, 6, 8, FLOAT_BITS)
FEW_BITS = (2, 3)  # which the processor's kernels read alone
SIZES = FileSizes(
    weight_bytes=weight_bytes,
    table_bytes=weight_bytes,
    shares_tied=(*FEW_BITS, *WEIGHT_BITS),
    alignment=PAGE_BYTES,
    rotary_numbers=1,
    layer_bytes=1 << 13,
    tensor_bytes=1 << 8,
    graph_bytes=1 << 12,
)
