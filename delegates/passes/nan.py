"""Where a program may make a NaN of its own, from inputs that have none."""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.report import operator_name

_MAKERS = {
    *("acos", "acosh", "asin", "atanh", "div", "exp", "expm1", "fmod", "log", "log10", "log1p"),
    *("log2", "pow", "reciprocal", "remainder", "rsqrt", "sinh", "cosh", "sqrt", "tan"),
}
_ENDERS = {"isnan", "eq", "ne", "lt", "le", "gt", "ge", "argmax", "argmin", "logical_not"}


def odd_constants(program: ExportedProgram) -> frozenset[str]:
    """Returns the names of weights and constants that hold a NaN or an infinity."""
    return frozenset(
        name
        for name, tensor in {**program.state_dict, **program.constants}.items()
        if isinstance(tensor, Tensor)
        and tensor.is_floating_point()
        and not bool(torch.isfinite(tensor).all())
    )


def may_be_nan(value: Any, program: ExportedProgram, odd: Collection[str]) -> bool:
    """Whether a value may be NaN though no input is: an operator on the way to it may make one, or
    a constant or a state may hold one. Floats that overflow are not considered.

    Args:
        odd: from odd_constants().
    """
    waiting, seen = [value], set[Node]()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Node) or node in seen:
            continue
        seen.add(node)
        if node.op == "placeholder":
            if _holds_nan(node, program, odd):
                return True
        elif node.op == "call_function":
            has_schema = hasattr(node.target, "_schema") or hasattr(node.target, "_op")
            name = operator_name(node) if has_schema else ""
            if name in _MAKERS and not _divides_by_constant(node, name):
                return True
            if name not in _ENDERS:
                waiting += node.all_input_nodes
    return False


def _divides_by_constant(node: Node, name: str) -> bool:
    divisor = node.args[1] if name == "div" else None
    return isinstance(divisor, int | float) and divisor != 0


def _holds_nan(node: Node, program: ExportedProgram, odd: Collection[str]) -> bool:
    signature = program.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    name = names.get(node.name)
    # A state holds whatever earlier calls left in it.
    return name in odd or name in signature.buffers_to_mutate.values()
