"""The ops for which Metal's executor has kernels; the same as in
runtime/cpp/delegate/metal/plan.cpp."""

from collections.abc import Callable
from typing import Any

from delegates.errors import DelegateError
from delegates.op_list.ops import (
    Attention,
    Elementwise,
    Embedding,
    Function,
    Glu,
    Linear,
    Norm,
    Op,
)
from delegates.op_list.payload import DelegateCall

_Lacking = Callable[[Any], bool]

_NOT_SILU = "gates by a function other than silu"

# The kinds of ops that it runs, each with what it does not support.
_RUNS: tuple[tuple[type[Op], tuple[tuple[_Lacking, str], ...]], ...] = (
    (Embedding, ((lambda op: op.rotated > 0, "rotates its rows back"),)),
    (
        Norm,
        (
            (lambda op: op.num_heads != 1, "normalizes each head"),
            (lambda op: op.weight is None, "norms without a weight"),
        ),
    ),
    (
        Linear,
        ((lambda op: op.activation not in (None, Function.SILU), _NOT_SILU),),
    ),
    (
        Attention,
        (
            (lambda op: op.soft_cap > 0, "has a soft cap of its scores"),
            (lambda op: op.sinks is not None, "has sinks"),
        ),
    ),
    (Elementwise, ((lambda op: op.function is not Function.ADD, "is not an addition"),)),
    (Glu, ((lambda op: op.activation is not Function.SILU, _NOT_SILU),)),
)


def check_kernels(call: DelegateCall) -> None:
    """Checks that Metal runs all ops of a call.

    Raises:
        DelegateError: Metal does not support an op; the sentence names the first one and the
            reason.
    """
    for op in call.ops:
        lacking = _lacking(op, call)
        if lacking is not None:
            raise DelegateError(
                f"Metal does not run {op.label} of {op.name}, which {lacking}: export with "
                "--delegate cpu."
            )


def _lacking(op: Op, call: DelegateCall) -> str | None:
    kinds = dict(_RUNS)
    if type(op) not in kinds:
        return "has no kernel"
    if isinstance(op, Elementwise) and call.slot(op.output) not in map(call.slot, op.reads()):
        return "is not done in place"
    return next((what for lacks, what in kinds[type(op)] if lacks(op)), None)
