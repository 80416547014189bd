"""GELU by tanh, which XNNPACK has only in its exact form, up to 4.7e-4 away."""

import math
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.graph import call_like

_aten = torch.ops.aten


def rewrite_gelu(program: ExportedProgram) -> int:
    """Replaces every GELU by tanh in place, by products and tanh; returns how many there were."""
    graph = program.graph
    nodes = [
        node
        for node in graph.find_nodes(op="call_function", target=_aten.gelu.default)
        if node.kwargs.get("approximate", "none") == "tanh"
    ]
    for node in nodes:
        with graph.inserting_before(node):
            new = _by_tanh(node)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    program.graph_module.recompile()
    return len(nodes)


def _by_tanh(node: Node) -> Node:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))"""

    def call(target: Any, *args: Any) -> Node:
        made = call_like(node, target, *args)
        made.meta["val"] = node.meta["val"]  # all have its shape and type
        return made

    add, mul, x = _aten.add.Tensor, _aten.mul.Tensor, node.args[0]
    cubed = call(mul, call(mul, x, x), x)
    inner = call(add, x, call(mul, cubed, 0.044715))
    tanh = call(_aten.tanh.default, call(mul, inner, math.sqrt(2 / math.pi)))
    return call(mul, call(mul, x, 0.5), call(add, tanh, 1.0))
