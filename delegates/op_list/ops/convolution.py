"""A gated short convolution over the rows of this call and the last ones before it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import CONVOLUTION, args_of, kwargs_of, operator_name, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, State, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class Convolution(Op):
    """
    Attributes:
        weight: (width, 1, kernel_size).
        bias: (width,); None: there is none.
    """

    READS: ClassVar = ("input",)

    input: Rows
    start_pos: Any
    state: State
    weight: Node
    bias: Node | None

    def fields(self, places: Places) -> list[Field]:
        return [
            places.slot(self.input),
            places.slot(self.output),
            places.state(self.state),
            places.taps(self.weight),
            None if self.bias is None else places.vector(self.bias),
        ]


def match_convolution(node: Node, values: Values) -> Convolution | Refused | None:
    """Returns the convolution whose first result is the node; the other is its state."""
    convolution, index = args_of(node)
    if index != 0 or operator_name(convolution) != CONVOLUTION:
        return None
    given = kwargs_of(convolution)
    x, weight, bias = (given[name] for name in ("input", "weight", "bias"))
    if not is_rows(x) or len(shape_of(x)) != 3:
        return Refused(f"of {said_shape(x)}; it takes rows of float32, (1, seq_len, width)")
    state = given["_all_bases"][given["_state_base_index"]]
    name = values.constants.buffer_name(state)
    if name is None or shape_of(state)[0] != 1:
        return Refused("its state is not a buffer of one sequence that it alone writes")
    if any(item is not None and values.constants.name(item) is None for item in (weight, bias)):
        return Refused("its weight is computed, not a constant")
    _, rows, width = shape_of(state)
    return Convolution(
        output=values.rows(node),
        nodes=[convolution, *convolution.users],
        input=values.rows(x),
        start_pos=given["start_pos"],
        state=State(name.rpartition(".")[0] or name, rows, width),
        weight=weight,
        bias=bias,
    )


MATCHERS: Matchers = {"getitem": (match_convolution,)}
