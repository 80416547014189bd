"""A finished `.pte` in the Python runtime that comes with ExecuTorch."""

from collections.abc import Callable
from pathlib import Path

from torch import Tensor


def open_program(path: Path) -> Callable[[Tensor, Tensor], Tensor]:
    """Opens a program's `forward`, with the kernels and backends that this process has registered.

    Returns:
        tokens int64 (1, seq_len), input_pos int64 (1,) -> logits float32 (1, vocab_size).
    """
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(path))

    def step(tokens: Tensor, input_pos: Tensor) -> Tensor:
        return module.run_method("forward", (tokens, input_pos))[0]

    return step
