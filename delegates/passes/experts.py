"""Mixtures of experts in plain operators, for delegates that know none of ours: the operator's
decomposition, in which every expert computes all rows."""

from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_flatten, tree_unflatten

from delegates.passes.graph import call_like

EXPERTS = "thimble.experts.default"


def expand_experts(program: ExportedProgram) -> int:
    """Replaces every mixture in place, by linears as the model's others are, and what routes rows;
    returns how many there were."""
    return expand(program, EXPERTS)


def expand(program: ExportedProgram, operator: str) -> int:
    """Replaces every node of an operator of ours in place by the operator's decomposition; returns
    how many there were."""
    graph = program.graph
    nodes = [node for node in graph.nodes if str(node.target) == operator]
    for node in nodes:
        with graph.inserting_before(node):
            node.replace_all_uses_with(_inlined(node))
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(nodes)


def _inlined(node: Node) -> Node:
    """Traces the decomposition of a node's operator on the values of its arguments, with linears
    kept whole, and adds the operators before the node, as of its source."""
    operator: Any = node.target
    decompose = get_decompositions([operator])[operator]
    leaves, spec = tree_flatten((list(node.args), dict(node.kwargs)))
    inputs = [leaf for leaf in leaves if isinstance(leaf, Node)]

    def on_tensors(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        filled = [next(given) if isinstance(leaf, Node) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(filled, spec)
        return decompose(*args, **kwargs)

    values = [leaf.meta["val"] for leaf in inputs]
    traced = make_fx(on_tensors, pre_dispatch=True)(*values).graph
    places = dict(zip(traced.find_nodes(op="placeholder"), inputs, strict=True))
    for inner in [node for node in traced.nodes if node.op == "call_function"]:
        made = call_like(node, inner.target)
        made.args = map_arg(inner.args, places.__getitem__)
        made.kwargs = map_arg(inner.kwargs, places.__getitem__)
        made.meta["val"] = inner.meta["val"]
        places[inner] = made
    return places[traced.output_node().args[0]]
