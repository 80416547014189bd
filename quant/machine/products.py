"""Which library multiplies float32 matrices on the CPU.

oneDNN is as fast as the processor can on any manufacturer's, PyTorch's default library is not. But
PyTorch asks oneDNN only if it may round to bfloat16, which it does where the processor has
instructions for that. Rounding is not harmless: it nearly triples the loss of SmolLM2-135M by
gptq4, whose hidden states have a few very large numbers.

Where it rounds, these instructions are several times as fast as others, and two ways to use them
round nothing, or hardly: integers of 8 bits are exact in bfloat16, and a float32 is the sum of two
bfloat16 but for 2^-17 of it. So x W^T of a weight that is stored in bfloat16 takes two products.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary


@contextmanager
def fast_products() -> Iterator[None]:
    """By oneDNN, without rounding: for hidden states and sums over thousands of tokens."""
    rounds = _rounds()
    with _precision("ieee" if rounds else "bf16"), _SplitLinears() if rounds else nullcontext():
        yield


@contextmanager
def exact_products() -> Iterator[None]:
    """By PyTorch's default library: for what is solved with those sums."""
    with _precision("ieee"):
        yield


def integer_product(codes: Tensor, integers: Tensor) -> Tensor:
    """codes integers^T, by the fastest library.

    Args:
        codes: float32 (..., columns), integers in -256..256.
        integers: float32 (rows, columns), numbers that bfloat16 holds.
    """
    with _precision("bf16"):
        product = codes.flatten(0, -2) @ integers.T
    return product.unflatten(0, codes.shape[:-1])


def add_product(total: Tensor, left: Tensor, right: Tensor, exact: bool) -> None:
    """Adds left^T right.

    Args:
        left, right: float32 (tokens, any).
        exact: bfloat16 holds the numbers of `right`.
    """
    if exact and left.device.type == "cpu" and _rounds():
        upper, lower = _two_parts(left)
        with _precision("bf16"):
            total.addmm_(lower.T, right).addmm_(upper.T, right)
    else:
        total.addmm_(left.T, right)


@cache
def integers_are_fast() -> bool:
    """Whether int8 matrices are multiplied several times as fast as float32 ones."""
    return torch.cpu._is_vnni_supported()  # AMX too: all its processors have both


class _SplitLinears(TorchFunctionMode):
    """Linears of weights that bfloat16 holds add the products of two parts of their input."""

    def __init__(self) -> None:
        super().__init__()
        self._exact = WeakTensorKeyDictionary()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is F.linear and not kwargs and self._splits(*args):
            return _split_linear(*args)
        return func(*args, **(kwargs or {}))

    def _splits(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
        if torch.is_grad_enabled() or weight.device.type != "cpu" or weight.dtype != torch.float32:
            return False
        if weight not in self._exact:
            self._exact[weight] = torch.equal(weight.bfloat16().float(), weight)
        return bool(self._exact[weight])


def _split_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    upper, lower = _two_parts(x.flatten(0, -2))
    with _precision("bf16"):
        product = (lower @ weight.T).addmm_(upper, weight.T)
    if bias is not None:
        product.add_(bias)
    return product.unflatten(0, x.shape[:-1])


def _two_parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """x to 8 bits, which bfloat16 holds, and the rest, which it holds but for 2^-9 of it."""
    upper = x.bfloat16().float()
    return upper, x - upper


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
