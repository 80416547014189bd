"""Writes a user's module in the operators that op lists are made of, in place.

Everything that it changes, the delegate takes: rows of float32, of samples of fixed shapes.
"""

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

from delegates.op_list.rewrite.attending import find_attention
from delegates.op_list.rewrite.editing import Editing
from delegates.op_list.rewrite.folding import fold_batch_norms
from delegates.op_list.rewrite.norms import rewrite_norms
from delegates.op_list.rewrite.rewriting import Rewriting
from delegates.passes.constants import fold_constants

_aten = torch.ops.aten
_VIEWS = _aten.view.default, _aten.reshape.default, _aten._unsafe_view.default


def sample_of(program: ExportedProgram) -> Node | None:
    """Returns an input that has a batch of samples; None if a size that is not the batch's differs
    from call to call."""
    given = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    inputs = [node for node in program.graph.find_nodes(op="placeholder") if node.name in given]
    values = [node.meta.get("val") for node in inputs]
    if not all(isinstance(value, torch.Tensor) for value in values):
        return None
    batched = [node for node, value in zip(inputs, values, strict=True) if value.dim() > 1]
    fixed = [size for value in values for size in value.shape[value.dim() > 1 :]]
    if any(not isinstance(size, int) for size in fixed):
        return None
    return batched[0] if batched else None


def rewrite(program: ExportedProgram, sample: Node) -> None:
    """
    Args:
        sample: of sample_of().
    """
    _drop_idle_views(program.graph)
    fold_constants(program)
    editing = Editing(program)
    rewrite_norms(editing)
    fold_batch_norms(editing)
    find_attention(editing, sample)
    fold_constants(program)
    Rewriting(Editing(program), sample).rewrite()
    fold_constants(program)


def _drop_idle_views(graph: Graph) -> None:
    """Drops views that give a value the shape it has: of tokens, nothing else would take them."""
    for node in list(graph.nodes):
        if node.target not in _VIEWS:
            continue
        source = node.args[0]
        if [*map(str, source.meta["val"].shape)] == [*map(str, node.meta["val"].shape)]:
            # An output is no input.
            node.replace_all_uses_with(source, delete_user_cb=lambda user: user.op != "output")
            if not node.users:
                graph.erase_node(node)


def free_views(graph_module: torch.fx.GraphModule) -> None:
    """Replaces the sizes of views by numbers, and the batch by -1: no part of the graph then passes
    a size to another."""
    for node in graph_module.graph.nodes:
        if "view" in str(node.target) and isinstance(node.meta.get("val"), torch.Tensor):
            sizes = [size if isinstance(size, int) else -1 for size in node.meta["val"].shape]
            if sizes.count(-1) == 1 and any(isinstance(size, Node) for size in node.args[1]):
                node.args = (node.args[0], sizes)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
