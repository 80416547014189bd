"""Inputs of linears rotated at run time, in blocks: outliers are spread over a block.

A Hadamard matrix H over the root of its size is orthogonal and its own inverse, so that
W x = (W H)(H x): the weight is rounded as W H, and the linear rotates its input before it rounds
that to int8. QuaRot (Ashkboos et al., 2024) does so where no rotation can be folded into other
weights. Here every linear of a decoder layer does it, within blocks of columns, so that norms, tied
ends and every family stay as they are.
"""

import torch
from torch import Tensor

_made: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}


def rotate_blocks(x: Tensor, size: int) -> Tensor:
    """Multiplies each block by H / sqrt(size), which is its own inverse.

    Args:
        x: float (..., columns), columns a multiple of the size.
        size: of a block, a power of two; 0 returns x.
    """
    if size == 0:
        return x
    return (x.unflatten(-1, (-1, size)) @ _hadamard(size, x)).flatten(-2)


def _hadamard(size: int, like: Tensor) -> Tensor:
    """Sylvester's matrix over the root of its size, symmetric and orthogonal, of the type and on
    the device of another tensor."""
    key = size, like.dtype, like.device
    if type(like) is Tensor and key in _made:
        return _made[key]
    matrix = like.new_full((1, 1), size**-0.5)
    while len(matrix) < size:
        matrix = torch.cat((matrix.repeat(1, 2), torch.cat((matrix, -matrix), dim=1)))
    if type(matrix) is Tensor:  # while a program is captured, it has no numbers
        _made[key] = matrix
    return matrix
