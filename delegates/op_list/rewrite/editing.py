"""Changes of a captured graph whose new nodes have their values at once."""

from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg

from delegates.passes.constants import constants_of, new_constant
from delegates.passes.graph import call_like


class Editing:
    """A captured program that a pass is changing.

    Attributes:
        constants: the tensors behind placeholders.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.graph = program.graph
        self.constants: dict[Node, Tensor] = constants_of(program)
        self._fresh = 0
        self._mode = detect_fake_mode([node.meta.get("val") for node in self.graph.nodes])

    def call(self, replaced: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
        """A new call before a node, with the source of that node."""
        with self.graph.inserting_before(replaced):
            node = call_like(replaced, target, *args)
        node.kwargs = kwargs
        given, named = map_arg((args, kwargs), lambda source: source.meta["val"])
        assert self._mode is not None
        with self._mode:
            node.meta["val"] = target(*given, **named)
        return node

    def constant(self, beside: Node, ending: str, tensor: Tensor) -> Node:
        """A new buffer; of one name there is one."""
        node = new_constant(self.program, f"{beside.name}{ending}", tensor)
        name = self.program.graph_signature.inputs_to_buffers[node.name]
        self.constants[node] = self.program.state_dict[name]
        return node

    def fresh(self, beside: Node, tensor: Tensor) -> Node:
        """A new buffer that nothing else shares: another pass may have left one of that name."""
        names = self.program.graph_signature.inputs_to_buffers.values()
        while True:
            self._fresh += 1
            ending = f"_table_{self._fresh}"
            if f"{beside.name}{ending}" not in names:
                return self.constant(beside, ending, tensor)

    def finish(self) -> None:
        self.graph.eliminate_dead_code()
        self.program.graph_module.recompile()


def value_of(node: Any) -> Tensor | None:
    """A node's fake tensor; None if it is not one tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, Tensor) else None


def is_float(node: Any, dims: int | None = None) -> bool:
    """Whether a node computes float32 whose sizes after the batch are known."""
    value = value_of(node)
    return (
        value is not None
        and value.dtype is torch.float32
        and (dims is None or value.dim() == dims)
        and all(isinstance(size, int) for size in value.shape[1:])
    )
