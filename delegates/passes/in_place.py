"""ExecuTorch's conversion to the edge dialect, without a new trace of the program for each pass.

Seven of its passes trace all operators again, 2 ms each, to change a few of them or none: four
fifths of the conversion's time. Here only the first does. One of the others adds its constants
where they are used, one renames operators in place, and four trace only if they have work.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

Pass = Callable[[GraphModule], PassResult | None]

_aten = torch.ops.aten
# Whose operands ExecuTorch converts to one type; of the second, integers to floats.
_ONE_TYPE = {_aten.add.Tensor, _aten.mul.Tensor, _aten.sub.Tensor, _aten.minimum.default}
_FLOATS = {_aten.div.Tensor, _aten.div.Tensor_mode}


@contextmanager
def passes_in_place() -> Iterator[None]:
    """Within it, to_edge() and to_edge_transform_and_lower() return the same, sooner."""
    from executorch.exir.program import _program

    original = _program._get_aten_to_edge_passes

    def passes(config: Any) -> tuple[list[Pass], list[Pass]]:
        before, after = original(config)
        return [_quick(one) for one in before], after

    with (
        patch.object(_program, "_get_aten_to_edge_passes", passes),
        patch.object(_program, "OpReplacePass", lambda: _rename_to_edge),
    ):
        yield


def _quick(original: Pass) -> Pass:
    """What the pass does, without a trace unless something needs one."""
    name = getattr(original, "__name__", type(original).__name__)
    if name == "ScalarToTensorPass":
        return _give_tensors
    has_work = {
        "NormalizeTransposePass": _is_view,
        "ReplaceBrokenOpsWithFunctionalOpsPass": _is_view,
        "SymToTensorPass": _has_symbol_for_tensor,
        "RemoveMixedTypeOperators": _may_mix_types,
    }.get(name)
    if has_work is None:
        return original

    def run(module: GraphModule) -> PassResult | None:
        if any(has_work(node, operator) for node, operator in _operators(module)):
            return original(module)
        return PassResult(module, False)

    return run


def _operators(module: GraphModule) -> Iterator[tuple[Node, Any]]:
    """The calls of operators in the program and in what it calls, and the operators."""
    for submodule in module.modules():
        if isinstance(submodule, GraphModule):
            for node in list(submodule.graph.nodes):
                if isinstance(node.target, torch._ops.OpOverload):
                    yield node, node.target


def _rename_to_edge(module: GraphModule) -> PassResult:
    """Gives every operator its name in the edge dialect, and its node the name that a trace would
    have given it, by which profiles show it."""
    from executorch.exir.passes.replace_aten_with_edge_pass import (
        aten_to_edge,
        should_lower_to_edge,
    )

    for node, operator in _operators(module):
        if should_lower_to_edge(operator):
            node.target = aten_to_edge(operator)
            node._rename(node.graph._target_to_str(node.target))
    module.recompile()
    return PassResult(module, True)


def _give_tensors(module: GraphModule) -> PassResult:
    """Makes a constant of every number where an operator's schema has a tensor."""
    for node, operator in _operators(module):
        for key, value in _for_tensors(node, operator):
            if isinstance(value, float | int | bool):
                with node.graph.inserting_before(node):
                    constant = node.graph.get_attr(_keep(node, torch.tensor(value)))
                if isinstance(key, int):
                    node.update_arg(key, constant)
                else:
                    node.update_kwarg(key, constant)
    module.recompile()
    return PassResult(module, True)


def _keep(node: Node, constant: Tensor) -> str:
    """Makes a constant an attribute of the module of the node's graph, and returns its name."""
    owner = node.graph.owning_module
    assert owner is not None
    number = 0
    while hasattr(owner, f"_tensor_constant{number}"):
        number += 1
    owner.register_buffer(f"_tensor_constant{number}", constant)
    return f"_tensor_constant{number}"


def _for_tensors(node: Node, operator: Any) -> list[tuple[int | str, Any]]:
    """The arguments that are tensors by the operator's schema, with their places or names."""
    numbers: list[tuple[int | str, Any]] = []
    for place, argument in enumerate(operator._schema.arguments):
        if isinstance(argument.type, torch.TensorType):
            if argument.name in node.kwargs:
                numbers.append((argument.name, node.kwargs[argument.name]))
            elif not argument.kwarg_only and place < len(node.args):
                numbers.append((place, node.args[place]))
    return numbers


def _is_view(node: Node, operator: Any) -> bool:
    return bool(operator.is_view)


def _has_symbol_for_tensor(node: Node, operator: Any) -> bool:
    values = [value for _, value in _for_tensors(node, operator) if isinstance(value, Node)]
    return any(not isinstance(_value(argument), Tensor) for argument in values)


def _may_mix_types(node: Node, operator: Any) -> bool:
    """Also true of some that do not."""
    if operator not in _ONE_TYPE | _FLOATS:
        return False
    values = [_value(argument) for argument in node.args[:2] if isinstance(argument, Node)]
    types = {value.dtype for value in values if isinstance(value, Tensor)}
    if (
        len(values) < 2
        or len(types) != 1
        or not all(isinstance(argument, Tensor) for argument in values)
    ):
        return True
    return operator in _FLOATS and not types.pop().is_floating_point


def _value(node: Node) -> Any:
    """An example of what it is: a tensor or a symbolic number."""
    if node.op == "get_attr":
        return getattr(node.graph.owning_module, str(node.target))
    return node.meta["val"]
