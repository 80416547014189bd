"""Reading a graph: what a node calls, which tensor a placeholder stands for.

The same operators have other names in the edge dialect, which has no views but copies, than in the
functional ATen that torch.export gives: here they go by one name.
"""

import operator
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

ATTENTION = "thimble::cached_attention"


def operator_name(node: Node) -> str:
    """`aten::linear`, `thimble::linear`, `getitem`; `aten::view` is `aten::view_copy` too. An
    operator that mutates its arguments goes by its own name."""
    if node.op != "call_function":
        return ""
    target: Any = node.args[0] if "auto_functionalized" in str(node.target) else node.target
    if target is operator.getitem:
        return "getitem"
    schema = getattr(target, "_schema", None) or getattr(
        getattr(target, "_op", None), "_schema", None
    )
    name = schema.name if schema is not None else getattr(target, "__name__", "")
    return name if name == "aten::_to_copy" else name.removesuffix("_copy")


def args_of(node: Node) -> tuple[Any, ...]:
    """What a node is given, by place."""
    return tuple(node.args)


def kwargs_of(node: Node) -> dict[str, Any]:
    """What a node is given by name."""
    return dict(node.kwargs)


def shape_of(node: Node) -> tuple[Any, ...]:
    """The shape of what a node computes; () where that is not one tensor."""
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def most_tokens(node: Node) -> int:
    """The largest seq_len of what has shape (1, seq_len, ...)."""
    size = shape_of(node)[1]
    if isinstance(size, int):
        return size
    upper = size.node.shape_env.bound_sympy(size.node.expr).upper
    return int(upper) if upper.is_Integer else sys.maxsize


class Constants:
    """The tensors behind the placeholders of a program.

    Args:
        program: its signature names the placeholders.
        tensors: by those names; the program's own unless given.
    """

    def __init__(
        self, program: ExportedProgram, tensors: Mapping[str, Tensor] | None = None
    ) -> None:
        signature = program.graph_signature
        self._names = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        self._mutated = set(signature.buffers_to_mutate.values())
        self._tensors = {**program.constants, **program.state_dict, **(tensors or {})}

    def name(self, node: Any) -> str | None:
        """The tensor's name in the captured program; None for anything but a constant."""
        if not isinstance(node, Node) or node.op != "placeholder":
            return None
        name = self._names.get(node.name)
        return None if name in self._mutated else name

    def buffer_name(self, node: Any) -> str | None:
        """The name of a buffer that the program writes, else None."""
        name = self._names.get(node.name) if isinstance(node, Node) else None
        return name if name in self._mutated else None

    def tensor(self, node: Node) -> Tensor:
        name = self.name(node)
        assert name is not None, node
        return self._tensors[name].detach()

    def number(self, value: Any) -> tuple[float, list[Node]] | None:
        """A number that a program holds, and the nodes that convert it; None for what is none.

        A number of the model's source is one in a node's arguments or, in the edge dialect, a
        constant tensor.
        """
        if isinstance(value, int | float):
            return float(value), []
        converted = []
        if isinstance(value, Node) and operator_name(value) == "aten::_to_copy":
            converted, value = [value], args_of(value)[0]
        if self.name(value) is None or shape_of(value) not in ((), (1,)):
            return None
        return float(self.tensor(value)), converted

    def release(self, node: Node) -> None:
        """Gives a tensor's memory back, wherever else the tensor is referred to: zeros of the same
        shape, which take none, stand for it."""
        name = self.name(node)
        assert name is not None, node
        tensor = self._tensors[name]
        tensor.data = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
