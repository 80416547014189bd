"""One row of each segment."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


class Pooling(IntEnum):
    """Those of the schema."""

    FIRST = 0
    LAST = 1
    MEAN = 2


@dataclass(eq=False, kw_only=True)
class Pool(Op):
    READS: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True
    ONE_ROW: ClassVar = True
    VERSION: ClassVar = 7

    input: Rows
    pooling: Pooling

    def fields(self, places: Places) -> list[Field]:
        return [places.slot(self.input), places.slot(self.output), self.pooling]


def match_pool(node: Node, values: Values) -> Pool | Refused:
    x, pooling = args_of(node)
    if not is_rows(x) or len(shape_of(x)) != 3:
        return Refused(f"of {said_shape(x)}; it takes rows of float32, (1, seq_len, width)")
    return Pool(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(x),
        pooling=Pooling[pooling.upper()],
    )


def match_mean(node: Node, values: Values) -> Pool | None:
    x, dims, *_ = (*args_of(node), ())  # without dimensions, of all
    if not values.by_sample or not is_rows(x) or len(shape_of(x)) != 3 or list(dims) != [1]:
        return None
    rows = values.rows(x)
    return Pool(output=values.rows(node), nodes=[node], input=rows, pooling=Pooling.MEAN)


MATCHERS: Matchers = {"thimble::pool": (match_pool,), "aten::mean": (match_mean,)}
