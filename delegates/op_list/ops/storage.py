"""How the matrix of a quantized operator is stored, by the operator's arguments."""

from torch.fx import Node

from delegates.op_list.graph import shape_of
from delegates.op_list.layout import GROUP_SIZES, MOST_COLUMNS, Format
from delegates.op_list.matrix import MatrixSource
from delegates.op_list.refused import Refused

_FORMATS_OF_4_BITS = {1: Format.INT4, 2: Format.INT4_TWO_LEVEL}  # by the levels of their scales


def quantized_source(
    values: Node, scales: Node, columns: int, bits: int, group_size: int, levels: int
) -> MatrixSource | Refused:
    """Returns the tensors of a matrix of `columns` inputs; `values` and `scales` are constants.

    Args:
        bits, group_size, levels: as thimble::linear and thimble::embedding say.
    """
    rows, stored = shape_of(values)
    if stored > MOST_COLUMNS:
        return Refused(f"it has {stored} inputs; its sums hold at most {MOST_COLUMNS}")
    if bits == 4 and group_size not in GROUP_SIZES:
        sizes = ", ".join(map(str, GROUP_SIZES))
        return Refused(f"it has groups of {group_size}; it takes groups of {sizes}")
    if bits == 4 and levels in _FORMATS_OF_4_BITS:
        format = _FORMATS_OF_4_BITS[levels]
    elif bits == 8 and group_size == 0:
        format = Format.INT8
    else:
        return Refused(
            f"its weight has {bits} bits, groups of {group_size} and scales on {levels} levels; it "
            "takes 4 bits in groups with scales on 1 or 2 levels, and 8 bits by row"
        )
    return MatrixSource(values, scales, format, rows, columns, group_size)
