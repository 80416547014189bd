"""Runs a `.pte` that holds one TOSA graph, with Arm's reference model of that language.

Besides the graph, the file's plan has only copies: casts of the inputs, and copies of the caches
that the graph returns to its inputs.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from delegates.errors import DelegateError

_CAST = "dim_order_ops::_to_dim_order_copy"
_COPY = "aten::copy_"
_NUMPY = {3: np.int32, 4: np.int64, 6: np.float32}  # by ExecuTorch's scalar types


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Opens a `.pte` whose delegate is TOSA; None if the reference model is not installed."""
    if importlib.util.find_spec("tosa_reference_model") is None:
        return None
    from executorch.exir._serialize._program import deserialize_pte_binary

    program = deserialize_pte_binary(path.read_bytes()).program
    machine = _Machine(program)

    def step(tokens: Tensor, input_pos: Tensor) -> Tensor:
        return torch.from_numpy(machine.run([tokens.numpy(), input_pos.numpy()]))

    return step


class _Machine:
    """The plan's values and what it does to them."""

    def __init__(self, program: Any) -> None:
        self._plan = next(plan for plan in program.execution_plan if plan.name == "forward")
        (delegate,) = self._plan.delegates
        self._graph = bytes(program.backend_delegate_data[delegate.processed.index].data)
        self._values: dict[int, np.ndarray] = {}

    def run(self, inputs: list[np.ndarray]) -> np.ndarray:
        """The plan's own output; the caches stay for the next call."""
        self._values.update(zip(self._plan.inputs, inputs, strict=True))
        for instruction in self._plan.chains[0].instructions:
            call = instruction.instr_args
            if type(call).__name__ == "DelegateCall":
                self._run_graph(call.args)
            elif type(call).__name__ == "KernelCall":
                self._run_kernel(self._plan.operators[call.op_index].name, call.args)
        return self._values[self._plan.outputs[-1]]

    def _run_kernel(self, name: str, args: list[int]) -> None:
        if name == _CAST:
            out = self._plan.values[args[-1]].val
            self._values[args[-1]] = self._values[args[0]].astype(_NUMPY[int(out.scalar_type)])
        elif name == _COPY:
            self._values[args[0]] = self._values[args[1]]
            self._values[args[-1]] = self._values[args[1]]
        else:
            raise DelegateError(f"The file calls {name} outside TOSA; it may only copy and cast.")

    def _run_graph(self, args: list[int]) -> None:
        import tosa_reference_model

        written = {
            call.args[1]
            for call in (item.instr_args for item in self._plan.chains[0].instructions)
            if type(call).__name__ == "KernelCall"
            and self._plan.operators[call.op_index].name == _COPY
        } | {self._plan.outputs[-1]}
        first = next(index for index, arg in enumerate(args) if arg in written)
        inputs = [self._value(arg) for arg in args[:first]]
        outputs, status = tosa_reference_model.run(self._graph, inputs, verbosity="LOW")
        if status != tosa_reference_model.GraphStatus.TOSA_VALID:
            raise DelegateError(f"Arm's reference model calls the TOSA graph {status.name}.")
        self._values.update(zip(args[first:], outputs, strict=True))

    def _value(self, index: int) -> np.ndarray:
        """Returns a value; zeros if nothing has written it yet, as for a cache."""
        if index not in self._values:
            tensor = self._plan.values[index].val
            self._values[index] = np.zeros(tensor.sizes, _NUMPY[int(tensor.scalar_type)])
        return self._values[index]
