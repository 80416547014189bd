"""Where a program may make a NaN of its own, from inputs that have none."""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.report import operator_name

# What may make a NaN of numbers; of numbers above zero, those of the second do not.
_MAKERS = {"acos", "acosh", "asin", "atanh", "fmod", "log1p", "pow", "remainder", "tan"}
_OF_POSITIVE = {"log", "log10", "log2", "reciprocal", "rsqrt", "sqrt"}
# What is never below zero, whatever its input, or if its input is not.
_NEVER_BELOW = {"abs", "exp", "relu", "relu6", "sigmoid", "softmax", "square", "var"}
_AS_INPUT = {"clone", "expand", "mean", "sum", "unsqueeze", "view", "reshape", "to", "_to_copy"}
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
            if _may_make(node, name):
                return True
            if name not in _ENDERS:
                waiting += node.all_input_nodes
    return False


def _may_make(node: Node, name: str) -> bool:
    if name == "pow":
        return not (isinstance(node.args[1], int | float) and float(node.args[1]).is_integer())
    if name == "div":
        divisor = node.args[1]
        if isinstance(divisor, int | float):
            return divisor == 0
        return not _is_above_zero(divisor)
    return name in _MAKERS or name in _OF_POSITIVE and not _is_above_zero(node.args[0])


def _is_above_zero(value: Any) -> bool:
    """Whether it is a sum of a positive constant and what is never below zero."""
    if not isinstance(value, Node) or value.op != "call_function":
        return False
    name = operator_name(value) if hasattr(value.target, "_schema") else ""
    if name in _AS_INPUT | {"sqrt"}:
        return _is_above_zero(value.args[0])
    numbers = [number for number in value.args if isinstance(number, int | float)]
    if name in ("clamp", "clamp_min"):
        return bool(numbers) and numbers[0] > 0
    return (
        name == "add" and any(number > 0 for number in numbers) and _is_never_below(value.args[0])
    )


def _is_never_below(value: Any) -> bool:
    if not isinstance(value, Node) or value.op != "call_function":
        return False
    name = operator_name(value) if hasattr(value.target, "_schema") else ""
    if name == "pow":
        return value.args[1] in (2, 4)
    if name == "mul":
        return value.args[0] is value.args[1]
    return name in _NEVER_BELOW or name in _AS_INPUT and _is_never_below(value.args[0])


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
