"""Activations as they are at run time: int8, dynamic, per token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from quant.rotation.inputs import rotate_blocks

_LOW, _HIGH = -128, 127
_EPS = torch.finfo(torch.float32).eps  # the smallest scale, the same as at run time
_NUMBERS = 8  # bytes of a token's zero point and scale
PIECE = 1 << 19  # numbers that are floats at a time, in the second cache


@dataclass(frozen=True)
class Rounded:
    """An input of a linear, each token rounded to int8: (values - zero_point) * scale.

    Attributes:
        values: int8 (..., columns).
        zero_point, scale: float32 (..., 1).
    """

    values: Tensor
    zero_point: Tensor
    scale: Tensor

    @classmethod
    def of(cls, x: Tensor) -> "Rounded":
        """Rounds float32 (..., columns)."""
        rows = x.flatten(0, -2)
        values = torch.empty_like(rows, dtype=torch.int8)
        zero_point, scale = rows.new_empty(2, len(rows), 1)
        step = max(1, PIECE // rows.shape[1])
        for start in range(0, len(rows), step):
            here = slice(start, start + step)
            values[here], zero_point[here], scale[here] = int8_values(rows[here])
        return cls(*(part.unflatten(0, x.shape[:-1]) for part in (values, zero_point, scale)))

    @classmethod
    def unpacked(cls, packed: Tensor) -> "Rounded":
        """What `packed` was made of."""
        numbers = packed[..., -_NUMBERS:].contiguous().view(torch.float32)
        return cls(packed[..., :-_NUMBERS], *numbers.split(1, dim=-1))

    def packed(self) -> Tensor:
        """All in one tensor, a quarter as large as the floats: int8 (..., columns + 8)."""
        numbers = torch.cat((self.zero_point, self.scale), dim=-1)
        return torch.cat((self.values, numbers.view(torch.int8)), dim=-1)

    def codes(self) -> Tensor:
        """The values less the zero point, integers in -255..255: float32 (..., columns)."""
        return self.values.float().sub_(self.zero_point)


@dataclass(frozen=True)
class RuntimeInputs:
    """An input as a linear sees it.

    Attributes:
        numbers: float32 (tokens, columns): where there are scales, integers, which bfloat16 holds.
        scale: float32 (tokens, 1), of which the floats are multiples; None: these are the numbers.
    """

    numbers: Tensor
    scale: Tensor | None

    def floats(self) -> Tensor:
        """float32 (tokens, columns)."""
        return self.numbers if self.scale is None else self.numbers * self.scale

    def weighted(self, left: Tensor) -> Tensor:
        """What the numbers are multiplied by where the floats are by `left` (tokens, any)."""
        return left if self.scale is None else left * self.scale


def int8_values(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rounds each token to int8, as 8da4w linears do with their input.

    scale = (max - min) / 255 over min(x, 0) .. max(x, 0), zero point round(-128 - min / scale).

    Args:
        x: float32 (..., features), a token per row.

    Returns:
        The values, integers (..., features), the zero points and the scales (..., 1): float32.
    """
    low = x.amin(dim=-1, keepdim=True).clamp_max_(0)
    high = x.amax(dim=-1, keepdim=True).clamp_min_(0)
    scale = ((high - low) / (_HIGH - _LOW)).clamp_min_(_EPS)
    zero_point = (_LOW - (low / scale).round()).clamp_(_LOW, _HIGH)
    values = (x * (1 / scale)).round_()  # torchao's own steps, so that no tie is broken otherwise
    return values.add_(zero_point).clamp_(_LOW, _HIGH), zero_point, scale


def int8_codes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rounds each token (..., features) to int8: the values less the zero point, integers in
    -255..255, and the scales (..., 1), float32."""
    values, zero_point, scale = int8_values(x)
    return values.sub_(zero_point), scale


def rotated_codes(x: Tensor, rotated: int) -> tuple[Tensor, Tensor]:
    """Rotates the blocks of that size in each token (..., features) and rounds it: int8_codes(); or
    the codes and scales of what was rotated and rounded already, Rounded.packed()."""
    if x.dtype is torch.int8:
        rounded = Rounded.unpacked(x)
        return rounded.codes(), rounded.scale
    return int8_codes(rotate_blocks(x, rotated))


def int8_round_trip(x: Tensor) -> Tensor:
    """Rounds each token (..., features) to int8 and back."""
    codes, scale = int8_codes(x)
    return codes.mul_(scale)
