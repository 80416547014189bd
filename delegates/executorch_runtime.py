"""A finished `.pte` in the Python runtime that comes with ExecuTorch."""

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor


def open_program(path: Path) -> Callable[..., Tensor]:
    """Opens a program's `forward`, with the kernels and backends that this process has registered.

    Returns:
        its inputs to its output: of a decoder, tokens int64 (1, seq_len) and input_pos int64 (1,)
        to logits float32 (1, vocab_size); of an encoder, tokens to a row (1, width).
    """
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(path))

    def step(*inputs: Tensor) -> Tensor:
        return module.run_method("forward", inputs)[0]

    return step


def open_module(path: Path) -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
    """Opens the `forward` of any program: from its inputs to its outputs, which are copies."""
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(path))

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        return [output.clone() for output in module.run_method("forward", tuple(inputs))]

    return run
