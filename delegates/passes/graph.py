"""Small changes of a captured graph, and of the nodes that a pass adds to one."""

from contextlib import nullcontext
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg

_aten = torch.ops.aten


def drop_checks(program: ExportedProgram) -> None:
    """Removes the assertions on sizes, positions and types, in place."""
    graph = program.graph
    for target in (_aten._assert_scalar.default, _aten._assert_tensor_metadata.default):
        for node in graph.find_nodes(op="call_function", target=target):
            graph.erase_node(node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def arguments(node: Node) -> dict[str, Any]:
    """Returns all that an operator is called with, by the names of its schema."""
    target: Any = node.target
    known = target._schema.arguments
    given = {argument.name: argument.default_value for argument in known}
    given |= {argument.name: value for argument, value in zip(known, node.args, strict=False)}
    return given | dict(node.kwargs)


def call_like(replaced: Node, target: Any, *args: Any) -> Node:
    """A new call where the graph is being changed, with the source of the node it replaces."""
    node = replaced.graph.call_function(target, args)
    source = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")
    node.meta = {key: replaced.meta[key] for key in source if key in replaced.meta}
    return node


def complete_values(program: ExportedProgram) -> None:
    """Gives the nodes that rewriting added their values, as tracing would, in place: an ETRecord
    contains the value of every node."""
    graph = program.graph
    missing = [
        node for node in graph.nodes if node.op == "call_function" and "val" not in node.meta
    ]
    fake_mode = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    with fake_mode or nullcontext():
        for node in missing:
            args, kwargs = map_arg((node.args, node.kwargs), lambda given: given.meta["val"])
            node.meta["val"] = node.target(*args, **kwargs)
