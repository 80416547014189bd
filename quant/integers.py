"""Quantized linears that run many times: their weights are made ready before the first."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.machine.products import integer_product
from quant.modules import QuantizedLinear
from quant.operators import dequantized, input_group, linear_of_floats
from quant.rounding.activations import rotated_codes

_ODD = range(1, 16, 2)  # what a row's float may be a multiple of, besides a power of two
# A scale of two levels has 8 bits: the first, which is not stored, and 7 in front of zeros.
_WHOLE, _BEHIND = 1 << 7, np.uint32(16)
# Which of _ODD divide such 8 bits, as bits; and the largest of some of them.
_DIVISORS = np.array(
    [
        sum(1 << index for index, odd in enumerate(_ODD) if (_WHOLE + rest) % odd == 0)
        for rest in range(_WHOLE)
    ],
    np.uint8,
)
_LARGEST = np.array(
    [_ODD[max(some, 1).bit_length() - 1] for some in range(1 << len(_ODD))], np.float32
)


@contextmanager
def dequantized_once(module: nn.Module) -> Iterator[None]:
    """Within the block, the quantized linears of a module do not dequantize in each call, and those
    that have an input in common round it once."""
    linears = [part for part in module.modules() if isinstance(part, QuantizedLinear)]
    inputs = _Inputs()
    try:
        for linear in linears:
            type = linear.weight_type
            grouped = input_group(type.group_size, type.levels)
            linear.ready = _OfFloats(linear) if grouped else _OfIntegers(linear, inputs)
        yield
    finally:
        for linear in linears:
            linear.ready = None


class _Inputs:
    """The last input of some linears, rounded."""

    def __init__(self) -> None:
        self._given: tuple[Tensor | None, int, int] = (None, 0, 0)
        self._rounded = (torch.empty(0), torch.empty(0))

    def rounded(self, x: Tensor, rotated: int, columns: int) -> tuple[Tensor, Tensor]:
        """Rotates an input, pads it to some columns and rounds it: its codes and scales.

        Args:
            x: or what was rotated and rounded already, Rounded.packed().
        """
        last, *form = self._given
        if x is not last or form != [rotated, columns]:
            codes, scale = rotated_codes(x, rotated)
            padding = columns - codes.shape[-1]  # of zeros, whose codes are 0
            self._rounded = F.pad(codes, (0, padding)) if padding else codes, scale
            self._given = x, rotated, columns
        return self._rounded


class _OfIntegers:
    """A linear whose inputs are rounded per token: a product of integers, which is exact but for
    the order of its sums, times the scales of tokens and rows."""

    def __init__(self, linear: QuantizedLinear, inputs: _Inputs) -> None:
        self._units = row_units(linear.scales)
        self._integers = dequantized(linear.values, linear.scales / self._units)
        self._rotated, self._bias, self._inputs = linear.rotated, linear.bias, inputs

    def __call__(self, x: Tensor) -> Tensor:
        codes, scale = self._inputs.rounded(x, self._rotated, self._integers.shape[1])
        product = integer_product(codes, self._integers).mul_(scale).mul_(self._units.squeeze(1))
        return product if self._bias is None else product.add_(self._bias)


class _OfFloats:
    """A linear whose inputs are rounded in groups."""

    def __init__(self, linear: QuantizedLinear) -> None:
        self._floats = dequantized(linear.values, linear.scales)
        self._rotated, self._bias, self._type = linear.rotated, linear.bias, linear.weight_type

    def __call__(self, x: Tensor) -> Tensor:
        group_size = self._type.group_size
        return linear_of_floats(x, self._floats, self._bias, self._rotated, group_size)


def row_units(scales: Tensor) -> Tensor:
    """The odd factor of each row's scales, such that what is left times an integer of the weight
    is exact in bfloat16.

    Args:
        scales: float32 (rows, groups) of two levels, or one for each row.

    Returns:
        float32 (rows, 1), 1 to 15; of a single scale, the scale itself.
    """
    if scales.shape[1] == 1:
        return torch.where(scales == 0, 1, scales)
    bits = scales.cpu().contiguous().numpy().view(np.uint32) >> _BEHIND
    common = np.bitwise_and.reduce(_DIVISORS[bits & (_WHOLE - 1)], axis=1)
    return torch.from_numpy(_LARGEST[common])[:, None].to(scales.device)
