"""Inputs of linears rotated at run time, in blocks: outliers are spread over a block.

A Hadamard matrix H over the root of its size is orthogonal and its own inverse, so that
W x = (W H)(H x): the weight is rounded as W H, and the linear rotates its input before it rounds
that to int8. QuaRot (Ashkboos et al., 2024) does so where no rotation can be folded into other
weights. Here every linear of a decoder layer does it, within blocks of columns, so that norms, tied
ends and every family stay as they are.
"""

from functools import cache

import torch
from torch import Tensor


def rotate_blocks(x: Tensor, size: int) -> Tensor:
    """Multiplies each block by H / sqrt(size), which is its own inverse.

    Args:
        x: float (..., columns), columns a multiple of the size.
        size: of a block, a power of two; 0 returns x.
    """
    if size == 0:
        return x
    matrix = _hadamard(size).to(x.device, x.dtype)
    return (x.unflatten(-1, (-1, size)) @ matrix).flatten(-2)


@cache
def _hadamard(size: int) -> Tensor:
    """Sylvester's matrix over the root of its size, float32: symmetric and orthogonal."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix / size**0.5
