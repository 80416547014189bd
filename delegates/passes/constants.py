"""Computes at export what depends on nothing that a call gives."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.fx.node import map_arg

from delegates.passes.quantized import drop_unread_buffers

_MOST_NUMBERS = 1 << 24  # of a result that is larger than what it is made of
_QUANTIZED = "quantized_decomposed", "torchao", "thimble"
_EXPAND = torch.ops.aten.expand.default


def constants_of(program: ExportedProgram) -> dict[Node, Tensor]:
    """Returns the tensors behind the placeholders that no call changes."""
    signature = program.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    tensors = {**program.constants, **program.state_dict}
    changed = set(signature.buffers_to_mutate.values())
    return {
        node: tensors[names[node.name]]
        for node in program.graph.find_nodes(op="placeholder")
        if names.get(node.name, "") in tensors.keys() - changed
    }


@torch.no_grad()
def fold_constants(program: ExportedProgram) -> None:
    """Replaces what is computed from constants alone by buffers, in place."""
    graph = program.graph
    known = constants_of(program)
    several: dict[Node, Sequence[Tensor]] = {}
    for node in graph.nodes:
        if node.target is operator.getitem and node.args[0] in several:
            known[node] = several[node.args[0]][node.args[1]]
        elif _is_foldable(node) and all(source in known for source in node.all_input_nodes):
            result = _computed(node, known)
            if isinstance(result, Tensor):
                known[node] = result
            elif result is not None:
                several[node] = result
    stored: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if node in known and node.op == "call_function":
            _store(program, node, known, stored)
    graph.eliminate_dead_code()
    drop_unread_buffers(program)
    program.graph_module.recompile()


def _is_foldable(node: Node) -> bool:
    target: Any = node.target
    return (
        node.op == "call_function"
        and isinstance(target, torch._ops.OpOverload)
        and target.namespace not in _QUANTIZED
        and torch.Tag.nondeterministic_seeded not in target.tags
        and not target._schema.is_mutable
        and all(isinstance(value, Tensor) for value in _values(node))
        and all(isinstance(size, int) for value in _values(node) for size in value.shape)
    )


def _values(node: Node) -> Sequence[Any]:
    """The fake tensors of each result."""
    values = node.meta.get("val")
    return values if isinstance(values, list | tuple) else [values]


def _computed(node: Node, known: dict[Node, Tensor]) -> Tensor | Sequence[Tensor] | None:
    sources = [known[source].numel() for source in node.all_input_nodes]
    numbers = sum(value.numel() for value in _values(node))
    if node.target is not _EXPAND and numbers > max(*sources, _MOST_NUMBERS, 0):
        return None
    args, kwargs = map_arg((node.args, node.kwargs), lambda source: known[source].detach())
    target: Any = node.target
    result: Tensor | Sequence[Tensor] = target(*args, **kwargs)
    return result


def _store(
    program: ExportedProgram, node: Node, known: dict[Node, Tensor], stored: dict[Node, Node]
) -> None:
    """Replaces a node that others than constants read. What repeats numbers does so at run time."""
    if all(user in known for user in node.users):
        return
    if node.target is _EXPAND:
        source = node.all_input_nodes[0]
        if source.op == "call_function":
            node.replace_input_with(source, _buffer(program, source, known, stored))
        return
    buffer = _buffer(program, node, known, stored)
    node.replace_all_uses_with(buffer, delete_user_cb=lambda user: user not in known)


def _buffer(
    program: ExportedProgram, node: Node, known: dict[Node, Tensor], stored: dict[Node, Node]
) -> Node:
    if node not in stored:
        stored[node] = new_constant(program, f"{node.name}_folded", known[node])
    return stored[node]


@torch.no_grad()
def new_constant(program: ExportedProgram, name: str, tensor: Tensor) -> Node:
    """Returns the placeholder of a new buffer, of which there is one for each name."""
    from executorch.backends.transforms.utils import create_constant_placeholder

    data = tensor.detach().clone(memory_format=torch.contiguous_format)
    first = next(iter(program.graph.find_nodes(op="placeholder")))
    with program.graph.inserting_before(first):
        return create_constant_placeholder(
            program, program.graph, name, InputKind.BUFFER, data, persistent_buffer=True
        )
