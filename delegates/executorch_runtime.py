"""A finished `.pte` in the Python runtime that comes with ExecuTorch."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from delegates.methods import FORWARD


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


def open_parts(
    path: Path, embedding: str, decoder: str, row_size: int
) -> Callable[[Tensor, Tensor], Tensor]:
    """Opens a decoder in two methods as one step: tokens and input_pos to logits, as by
    open_program(). What `load` of its delegate registers must be registered.

    Args:
        row_size: numbers of a row that the decoder reads; of a token, further ones are 0.
    """
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(path))

    def step(tokens: Tensor, input_pos: Tensor) -> Tensor:
        (rows,) = module.run_method(embedding, (tokens,))
        wide = pad(rows, (0, row_size - rows.shape[-1]))
        return module.run_method(decoder, (wide.clone(), input_pos))[0]

    return step


def register_kernels() -> None:
    """Registers the kernels that ExecuTorch's Python runtime has beside its portable ones."""
    import executorch.kernels.quantized  # noqa: F401
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401


def open_module(path: Path) -> Callable[..., Sequence[Tensor]]:
    """Opens any program: from the inputs of a method, `forward` unless another is named, to its
    outputs, which are copies. Loading a method sets the buffers that methods share, so all are
    loaded first."""
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(path)
    methods: dict[str, Any] = {
        name: program.load_method(name) for name in sorted(program.method_names)
    }

    def run(inputs: Sequence[Tensor], method: str = FORWARD) -> list[Tensor]:
        return [output.clone() for output in methods[method].execute(tuple(inputs))]

    return run
