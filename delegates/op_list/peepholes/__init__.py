"""Peepholes merge ops into fewer that compute the same: each may be left out. One alone rounds
numbers, attend_in_integers.

A peephole looks at one op and what it is tied to. It merges them, or says why not, or has nothing
to do with such an op.
"""

from collections.abc import Callable

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Op
from delegates.op_list.peepholes.activate import activate_in_place
from delegates.op_list.peepholes.heads import norm_heads_in_attention, rotate_in_attention
from delegates.op_list.peepholes.inputs import (
    norm_in_linears,
    prepare_once,
    select_last_in_linears,
)
from delegates.op_list.peepholes.integers import attend_in_integers
from delegates.op_list.peepholes.join import gate, join_gate_and_up, join_query_key_value
from delegates.op_list.peepholes.residual import add_in_linear
from delegates.op_list.peepholes.windows import multiply_windows
from delegates.op_list.refused import Refused

Peephole = Callable[[OpList, Op], Refused | None]

# In this order: what an op reads is settled before rows are joined, and both before anything is
# added in place.
PEEPHOLES: tuple[Peephole, ...] = (
    gate,
    rotate_in_attention,
    norm_heads_in_attention,
    norm_in_linears,
    select_last_in_linears,
    join_query_key_value,
    join_gate_and_up,
    multiply_windows,
    activate_in_place,
    add_in_linear,
    prepare_once,
    attend_in_integers,
)


def merge(ops: OpList) -> dict[Op, Refused]:
    """Merges what can be merged; why ops that are left were not."""
    refused: dict[Op, Refused] = {}
    for peephole in PEEPHOLES:
        for op in list(ops):
            if op in ops:  # not merged by now
                reason = peephole(ops, op)
                if reason is not None:
                    refused[op] = reason
    return {op: reason for op, reason in refused.items() if op in ops}


__all__ = ["PEEPHOLES", "Peephole", "merge"]
