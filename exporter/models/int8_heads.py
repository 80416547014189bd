"""Queries, keys and values in int8, as attention over an int8 cache multiplies them.

Each head of a position has one scale. Queries and keys are first rotated in blocks, which leaves
their products: outliers of a few dimensions, which would decide the scale, are spread over many
(QuaRot, Ashkboos et al., 2024, section 4.2). The CPU delegate computes the same
(runtime/cpp/delegate/ops/attention.cpp).
"""

import torch
from torch import Tensor

from quant.method import rotated_block
from quant.rotation.inputs import rotate_blocks

_MOST = 127  # steps of a scale
_LEAST_SCALE = torch.finfo(torch.float32).tiny


def in_int8(heads: Tensor) -> Tensor:
    """Rounds each head to int8 and back: scale = max(|x|) / 127.

    Args:
        heads: float32 (..., head_dim).
    """
    largest = torch.maximum(heads.amax(-1, keepdim=True), -heads.amin(-1, keepdim=True))
    scale = largest / _MOST
    inverse = torch.where(scale < _LEAST_SCALE, 0.0, 1 / scale)
    return (heads * inverse).round_().mul_(scale)


def turned(heads: Tensor) -> Tensor:
    """Rotates queries or keys, or rotates them back."""
    return rotate_blocks(heads, rotated_block(heads.shape[-1]))


def rotated_in_int8(heads: Tensor) -> Tensor:
    """Queries or keys, rotated, rounded to int8 and rotated back."""
    return turned(in_int8(turned(heads)))
