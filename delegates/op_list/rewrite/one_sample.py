"""A module whose positions are in front, as PyTorch's sequences first: no size of its inputs counts
samples, so all of them together are one."""

from collections.abc import Callable

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.weights import copy_graph

_aten = torch.ops.aten
_CALL = _aten.scaled_dot_product_attention.default
_ATTENDING = _CALL, _aten.softmax.int, _aten._softmax.default


def has_one_sample(
    program: ExportedProgram, sample: Node, rewrite: Callable[[ExportedProgram, Node], None]
) -> bool:
    """Whether more attention is within samples if all of the inputs are one.

    Args:
        sample: of sample_of().
        rewrite: writes a program anew, in place.
    """
    batch = sample.meta["val"].shape[0]
    if not isinstance(batch, int) or batch == 1:
        return False
    if not any(node.target in _ATTENDING for node in program.graph.nodes):
        return False
    usual, whole = copy_graph(program), copy_graph(program)
    (same,) = (node for node in usual.graph.nodes if node.name == sample.name)
    rewrite(usual, same)
    rewrite(whole, as_one_sample(whole, sample.name))
    return _left(whole) < _left(usual)


def _left(program: ExportedProgram) -> int:
    return len(program.graph.find_nodes(op="call_function", target=_CALL))


def as_one_sample(program: ExportedProgram, sample: str) -> Node:
    """Puts a size of 1 before those of the inputs, and takes it away again.

    Returns:
        what became of the sample, one of the inputs, with that size.
    """
    graph, wide = program.graph, {}
    inputs = graph.find_nodes(op="placeholder")
    for node in inputs:
        if node.name not in program.graph_signature.user_inputs or not node.users:
            continue
        users, value = list(node.users), node.meta["val"]
        with graph.inserting_after(inputs[-1]):
            made = graph.call_function(_aten.unsqueeze.default, (node, 0))
        with graph.inserting_after(made):
            same = graph.call_function(_aten.squeeze.dim, (made, 0))
        made.meta = {**users[0].meta, "val": value.unsqueeze(0)}
        same.meta = {**users[0].meta, "val": value}
        for user in users:
            user.replace_input_with(node, same)
        wide[node.name] = made
    program.graph_module.recompile()
    return wide[sample]
