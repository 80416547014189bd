"""Queries, keys and values in int8, as attention over an int8 cache multiplies them.

Each head of a position has one scale. Queries and keys are first rotated in blocks, which leaves
their products: outliers of a few dimensions, which would decide the scale, are spread over many
(QuaRot, Ashkboos et al., 2024, section 4.2). The CPU delegate computes the same
(runtime/cpp/delegate/ops/attention.cpp).
"""

import torch
from torch import Tensor

from quant.rotation.inputs import rotate_blocks

_MOST = 127  # steps of a scale
_BLOCKS = (64, 32, 16)  # the largest that divides a head is rotated; none: it stays
_LEAST_SCALE = torch.finfo(torch.float32).tiny


def in_int8(heads: Tensor) -> Tensor:
    """Rounds each head to int8 and back: scale = max(|x|) / 127.

    Args:
        heads: float32 (..., head_dim).
    """
    scale = heads.abs().amax(dim=-1, keepdim=True) / _MOST
    inverse = torch.where(scale < _LEAST_SCALE, 0.0, 1 / scale)
    return (heads * inverse).round().clamp(-_MOST, _MOST) * scale


def rotated_in_int8(heads: Tensor) -> Tensor:
    """The same of queries or keys, which are rotated for it."""
    head_dim = heads.shape[-1]
    size = next((size for size in _BLOCKS if head_dim % size == 0), 0)
    return rotate_blocks(in_int8(rotate_blocks(heads, size)), size)
