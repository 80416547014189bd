"""How exactly the CPU multiplies float32 matrices.

oneDNN may round the numbers to bfloat16 where the processor then has instructions for them, and
adds in float32. Elsewhere it multiplies float32, as fast as the processor can, which other
libraries do only for some manufacturers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def fast_products() -> Iterator[None]:
    """For hidden states and sums over thousands of tokens, which rounding at random changes
    little."""
    with _precision("bf16"):
        yield


@contextmanager
def exact_products() -> Iterator[None]:
    """For what is solved with those sums."""
    with _precision("ieee"):
        yield


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
