"""The gated delta rule, with the convolution that mixes what it reads."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import DELTA_RULE, args_of, kwargs_of, operator_name, shape_of
from delegates.op_list.layout import BLOCK_ROWS, round_up
from delegates.op_list.ops.op import Field, Matchers, Op, Places, State, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows


@dataclass(eq=False, kw_only=True)
class Delta(Op):
    """
    Attributes:
        qkv: queries, keys and values, which it mixes in their slot.
        inputs: the state of the convolution.
        state: a matrix for each head of the values.
        heads: of keys: their number and size; of values: the same.
        weight: (width of qkv, 1, kernel_size).
    """

    READS: ClassVar = ("qkv", "a", "b")

    qkv: Rows
    a: Rows
    b: Rows
    start_pos: Any
    inputs: State
    state: State
    heads: tuple[int, int, int, int]
    weight: Node
    a_log: Node
    dt_bias: Node

    def fields(self, places: Places) -> list[Field]:
        return [
            *(places.slot(rows) for rows in (self.qkv, self.a, self.b, self.output)),
            places.state(self.inputs),
            places.state(self.state),
            *self.heads,
            places.taps(self.weight),
            places.vector(self.a_log),
            places.vector(self.dt_bias),
        ]


def match_delta(node: Node, values: Values) -> Delta | Refused | None:
    """Returns the delta rule whose first result is the node; the others are its states."""
    rule, index = args_of(node)
    if index != 0 or operator_name(rule) != DELTA_RULE:
        return None
    given = kwargs_of(rule)
    qkv, a, b = rows = [given[name] for name in ("qkv", "a", "b")]
    if not all(is_rows(x) and len(shape_of(x)) == 3 for x in rows):
        return Refused("its inputs are not rows of float32, (1, seq_len, width)")
    if len(qkv.users) > 1:
        return Refused("its queries, keys and values are read by others too, and it mixes them")
    bases = given["_all_bases"]
    inputs, state = (bases[given[f"_{name}_base_index"]] for name in ("inputs", "state"))
    names = [values.constants.buffer_name(kept) for kept in (inputs, state)]
    if names[0] is None or names[1] is None or shape_of(inputs)[0] != 1 or inputs is state:
        return Refused("its states are not two buffers of one sequence that it alone writes")
    constants = [given[name] for name in ("weight", "a_log", "dt_bias")]
    if any(values.constants.name(item) is None for item in constants):
        return Refused("its weights are computed, not constants")
    name = names[0].rpartition(".")[0] or names[0]
    _, count, width = shape_of(inputs)
    _, heads, key_dim, value_dim = shape_of(state)
    key_heads = (width - heads * value_dim) // (2 * key_dim)
    return Delta(
        output=values.rows(node),
        nodes=[rule, *rule.users],
        qkv=values.rows(qkv),
        a=values.rows(a),
        b=values.rows(b),
        start_pos=given["start_pos"],
        inputs=State(name, count, width),
        state=State(name, 1, heads * key_dim * round_up(value_dim, BLOCK_ROWS)),
        heads=(key_heads, key_dim, heads, value_dim),
        weight=constants[0],
        a_log=constants[1],
        dt_bias=constants[2],
    )


MATCHERS: Matchers = {"getitem": (match_delta,)}
