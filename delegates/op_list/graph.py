"""Reading a graph: what a node calls, which tensor a placeholder stands for.

The edge dialect has copies instead of views, so that some operators have other names there than in
the functional ATen of torch.export: here, both have the same name.
"""

import operator
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Node

ATTENTION = "thimble::cached_attention"
ROTARY_ROWS = "thimble::rotary_rows"
SHARED_ATTENTION = "thimble::shared_attention"
CONVOLUTION = "thimble::short_convolution"
DELTA_RULE = "thimble::gated_delta_rule"
# Whose first result is theirs, and the others what they keep.
CACHED = ATTENTION, CONVOLUTION, DELTA_RULE


def operator_name(node: Node) -> str:
    """Returns a name such as `aten::linear`, `thimble::linear` or `getitem`; for `aten::view_copy`,
    `aten::view`; for a wrapper around an operator that mutates its arguments, that operator's."""
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
    """Returns a node's positional arguments."""
    return tuple(node.args)


def kwargs_of(node: Node) -> dict[str, Any]:
    """Returns a node's keyword arguments."""
    return dict(node.kwargs)


def shape_of(node: Node) -> tuple[Any, ...]:
    """Returns the shape of a node's value; () if that is not one tensor. A size that differs from
    call to call is an expression, which equals no number: to compare a SymInt would fix it."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return ()
    return tuple(size if isinstance(size, int) else size.node.expr for size in value.shape)


def most_tokens(node: Node) -> int:
    """Returns the largest seq_len of a value of shape (1, seq_len, ...)."""
    size = node.meta["val"].shape[1]
    if isinstance(size, int):
        return int(size)
    upper = size.node.shape_env.bound_sympy(size.node.expr).upper
    return int(upper) if upper.is_Integer else sys.maxsize


class Constants:
    """The tensors behind the placeholders of a program.

    Args:
        program: its signature names the placeholders.
        tensors: by those names; None: the program's own.
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
        """Returns the tensor's name in the captured program; None if the node is not a constant."""
        if not isinstance(node, Node) or node.op != "placeholder":
            return None
        name = self._names.get(node.name)
        return None if name in self._mutated else name

    def buffer_name(self, node: Any) -> str | None:
        """Returns the name of a buffer that the program writes, else None."""
        name = self._names.get(node.name) if isinstance(node, Node) else None
        return name if name in self._mutated else None

    def tensor(self, node: Node) -> Tensor:
        name = self.name(node)
        assert name is not None, node
        return self._tensors[name].detach()

    def number(self, value: Any) -> tuple[float, list[Node]] | None:
        """Returns a number in the program, and the nodes that convert it; None if it is not one.

        A number in the model's source is a node's argument or, in the edge dialect, a constant
        tensor.
        """
        if isinstance(value, int | float):
            return float(value), []
        converted = []
        if isinstance(value, Node) and operator_name(value) == "aten::_to_copy":
            converted, value = [value], args_of(value)[0]
        if self.name(value) is None or shape_of(value) not in ((), (1,)):
            return None
        tensor = self.tensor(value)
        if isinstance(tensor, FakeTensor) and tensor.constant is None:  # its shape alone is known
            return None
        return float(tensor), converted

    def release(self, node: Node) -> None:
        """Releases a tensor's memory, even if other objects refer to the tensor: zeros of the same
        shape, which take no memory, replace its data."""
        name = self.name(node)
        assert name is not None, node
        tensor = self._tensors[name]
        tensor.data = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
