"""How the matrix of a quantized operator is stored, by the operator's arguments."""

from torch.fx import Node

from delegates.op_list.graph import shape_of
from delegates.op_list.layout import FORMATS, GROUP_SIZES, MOST_COLUMNS
from delegates.op_list.matrix import MatrixSource
from delegates.op_list.refused import Refused


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
    if group_size > 0 and group_size not in GROUP_SIZES:
        sizes = ", ".join(map(str, GROUP_SIZES))
        return Refused(f"it has groups of {group_size}; it takes groups of {sizes}")
    format = FORMATS.get((bits, group_size > 0, levels))
    if format is None:
        return Refused(
            f"its weight has {bits} bits, groups of {group_size} and scales on {levels} levels. In "
            "groups it takes 4 bits with 1 or 2 levels, 2, 3, 5 and 6 with 2, 8 with 1; by row, 8"
        )
    return MatrixSource(values, scales, format, rows, columns, group_size)
