"""Activations as they are at run time: int8, dynamic, per token."""

import torch
from torch import Tensor

_LOW, _HIGH = -128, 127
_EPS = torch.finfo(torch.float32).eps  # the smallest scale, the same as at run time


def int8_round_trip(x: Tensor) -> Tensor:
    """Rounds each token to int8 and back, as 8da4w linears do with their input.

    scale = (max - min) / 255 over min(x, 0) .. max(x, 0), zero point round(-128 - min / scale).

    Args:
        x: float32 (..., features), a token per row.
    """
    low = x.amin(dim=-1, keepdim=True).clamp_max_(0)
    high = x.amax(dim=-1, keepdim=True).clamp_min_(0)
    scale = ((high - low) / (_HIGH - _LOW)).clamp_min_(_EPS)
    zero_point = (_LOW - (low / scale).round()).clamp_(_LOW, _HIGH)
    values = (x / scale).round_().add_(zero_point).clamp_(_LOW, _HIGH)
    return values.sub_(zero_point).mul_(scale)
