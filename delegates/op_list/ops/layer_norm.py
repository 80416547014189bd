"""LayerNorm of rows, or of each head of a row."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, operator_name, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_heads, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class LayerNorm(Op):
    """
    Attributes:
        weight: None: all are 1.
        bias: None: there is none.
    """

    READS: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True
    IN_PLACE: ClassVar = ("input",)
    VERSION: ClassVar = 7

    input: Rows
    num_heads: int
    weight: Node | None
    bias: Node | None
    eps: float

    def fields(self, places: Places) -> list[Field]:
        numbers = (None if x is None else places.vector(x) for x in (self.weight, self.bias))
        slots = places.slot(self.input), places.slot(self.output)
        return [*slots, *numbers, self.eps, self.num_heads]

    @property
    def label(self) -> str:
        return "layer_norm"


def match_layer_norm(node: Node, values: Values) -> LayerNorm | Refused | None:
    """Returns the norm whose first result is the node; nothing may read the other two."""
    norm, index = args_of(node)
    if index != 0 or operator_name(norm) != "aten::native_layer_norm":
        return None
    return _layer_norm(node, norm, values)


def match_whole(node: Node, values: Values) -> LayerNorm | Refused:
    return _layer_norm(node, node, values)


def _layer_norm(node: Node, norm: Node, values: Values) -> LayerNorm | Refused:
    x, shape, weight, bias, eps = args_of(norm)
    if not is_rows(x):
        return Refused(f"of {said_shape(x)}; it takes rows of float32, (1, seq_len, width)")
    if tuple(shape) != shape_of(x)[-1:]:
        return Refused(f"over the last {len(shape)} dimensions; it norms the last one")
    if any(item is not None and values.constants.name(item) is None for item in (weight, bias)):
        return Refused("its weight or bias is computed, not a constant")
    return LayerNorm(
        output=values.rows(node),
        nodes=[node] if node is norm else [norm, node],
        input=values.rows(x),
        num_heads=shape_of(x)[2] if is_heads(x) else 1,
        weight=weight,
        bias=bias,
        eps=eps,
    )


MATCHERS: Matchers = {"getitem": (match_layer_norm,), "thimble::layer_norm": (match_whole,)}
