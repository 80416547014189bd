"""Heads of rows and rows of heads: another shape of the same numbers, which nothing computes.

It is an op while a graph is matched; it is not in the list that is written.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.ops.op import Matchers, Op, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape, width_of


@dataclass(eq=False, kw_only=True)
class View(Op):
    READS: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True

    input: Rows

    @property
    def makes_heads(self) -> bool:
        return len(shape_of(self.node)) == 4


def match_sample_view(node: Node, values: Values) -> View | Refused | None:
    """Copies, and dimensions of one, of samples."""
    return match_view(node, values) if values.by_sample else None


def match_view(node: Node, values: Values) -> View | Refused:
    source = args_of(node)[0]
    if values.by_sample and is_rows(source) and is_rows(node):
        if values.rows(source).size == values.rows(node).size:
            return View(output=values.rows(node), nodes=[node], input=values.rows(source))
        return Refused(f"of {said_shape(source)} as {said_shape(node)}; rows stay as they are")
    shapes = [shape_of(item) for item in (source, node)]
    if (
        not is_rows(source)
        or not is_rows(node)
        or any(len(shape) == 2 for shape in shapes)
        or width_of(source) != width_of(node)
    ):
        both = f"of {said_shape(source)} as {said_shape(node)}"
        return Refused(f"{both}; it takes rows as heads, and heads as rows")
    return View(output=values.rows(node), nodes=[node], input=values.rows(source))


MATCHERS: Matchers = {
    "aten::view": (match_view,),
    **dict.fromkeys(
        ("aten::clone", "aten::squeeze", "aten::unsqueeze", "aten::alias"), (match_sample_view,)
    ),
}
