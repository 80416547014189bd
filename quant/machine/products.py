"""Which library multiplies float32 matrices on the CPU.

oneDNN is as fast as the processor can on any manufacturer's, PyTorch's default library is not. But
PyTorch asks oneDNN only if it may round to bfloat16, which it does where the processor has
instructions for that. Rounding is not harmless: it nearly triples the loss of SmolLM2-135M by
gptq4, whose hidden states have a few very large numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch


@contextmanager
def fast_products() -> Iterator[None]:
    """By oneDNN, if it does not round: for hidden states and sums over thousands of tokens."""
    with _precision("ieee" if _rounds() else "bf16"):
        yield


@contextmanager
def exact_products() -> Iterator[None]:
    """By PyTorch's default library: for what is solved with those sums."""
    with _precision("ieee"):
        yield


@cache
def _rounds() -> bool:
    """Whether oneDNN rounds on this processor: a number of 13 bits times 1, in a matrix that is
    large enough for it, stays what it is or does not."""
    numbers = torch.full((64, 64), 1 + 2.0**-12)
    with _precision("bf16"):
        return not torch.equal(numbers @ torch.eye(64), numbers)


@contextmanager
def _precision(name: str) -> Iterator[None]:
    onednn: Any = torch.backends.mkldnn  # its attribute is not in PyTorch's types
    matmul = onednn.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = name
    try:
        yield
    finally:
        matmul.fp32_precision = before
