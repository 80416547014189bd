"""Passes over a program with delegate calls, without tracing the inside of the calls again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule

_CALL = torch._higher_order_ops.executorch_call_delegate
_PROGRAM = "_original_exported_program"  # where a lowered module keeps its original program


@contextmanager
def calls_not_traced(graph_module: GraphModule) -> Iterator[None]:
    """Within the block, tracing a delegate call only makes tensors of its outputs' shapes.

    ExecuTorch would trace the complete graph inside the call for them, in every pass. A call with
    an output of dynamic shape is traced as usual.
    """
    replaced: list[tuple[Any, ExportedProgram]] = []
    for node in graph_module.graph.find_nodes(op="call_function", target=_CALL):
        lowered: Any = getattr(graph_module, str(node.args[0].target))  # type: ignore[union-attr]
        outputs = _outputs(lowered.original_module)
        if outputs is not None:
            replaced.append((lowered, lowered.original_module))
            setattr(lowered, _PROGRAM, _KnownOutputs(lowered.original_module, outputs))
    try:
        yield
    finally:
        for lowered, program in replaced:
            setattr(lowered, _PROGRAM, program)


def _outputs(program: ExportedProgram) -> list[Tensor] | None:
    """Returns a call's outputs if all have fixed shapes; the delegate keeps the caches itself."""
    nodes = {node.name: node for node in program.graph.nodes}
    outputs = [nodes[name].meta.get("val") for name in program.graph_signature.user_outputs]
    known = all(
        isinstance(output, Tensor) and all(isinstance(size, int) for size in output.shape)
        for output in outputs
    )
    return outputs if known else None


class _KnownOutputs:
    """A program that, when run, only makes tensors of its outputs' shapes."""

    def __init__(self, program: ExportedProgram, outputs: list[Tensor]) -> None:
        self._program = program
        self._outputs = outputs

    def module(self) -> Callable[..., list[Tensor]]:
        def run(*_: object) -> list[Tensor]:
            return [torch.empty(output.shape, dtype=output.dtype) for output in self._outputs]

        return run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)
