"""The rows of a sample, behind them those of another; or both side by side."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class Concatenate(Op):
    """
    Attributes:
        columns: whether they are side by side.
    """

    READS: ClassVar = ("first", "second")
    BY_TOKEN: ClassVar = False
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 8

    first: Rows
    second: Rows
    columns: bool

    def fields(self, places: Places) -> list[Field]:
        slots = (places.slot(rows) for rows in (self.first, self.second, self.output))
        return [*slots, self.columns]


def match_concatenate(node: Node, values: Values) -> Concatenate | Refused | None:
    parts, dim = (*args_of(node), 0)[:2]
    if not values.by_sample:
        return None
    dims = len(shape_of(node))
    dim %= dims
    columns = dim == dims - 1 and dims in (2, 3)
    if not all(map(is_rows, parts)) or dim != 1 and not columns:
        shapes = " and ".join(map(said_shape, parts))
        return Refused(f"of {shapes} along dimension {dim}; it joins rows or columns of samples")
    if len(parts) != 2:
        return Refused(f"of {len(parts)} parts; it takes two")
    first, second = map(values.rows, parts)
    output = values.rows(node)
    return Concatenate(output=output, nodes=[node], first=first, second=second, columns=columns)


MATCHERS: Matchers = {"aten::cat": (match_concatenate,)}
