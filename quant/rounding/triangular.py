"""Products and the inverse of triangular matrices, in blocks: nothing is multiplied by the zeros.

A product takes half of the operations of a whole matrix, and little more than that in blocks.
"""

import torch
from torch import Tensor

_BLOCK = 256


def times_upper(left: Tensor, upper: Tensor) -> Tensor:
    """left U.

    Args:
        left: float (rows, columns).
        upper: float (columns, columns); what is below the diagonal's blocks is not read.
    """
    product = torch.empty_like(left, memory_format=torch.contiguous_format)
    for start in range(0, len(upper), _BLOCK):
        end = start + _BLOCK
        torch.mm(left[:, :end], upper[:end, start:end], out=product[:, start:end])
    return product


def times_lower(left: Tensor, lower: Tensor) -> Tensor:
    """left L, as `times_upper`."""
    product = torch.empty_like(left, memory_format=torch.contiguous_format)
    for start in range(0, len(lower), _BLOCK):
        end = start + _BLOCK
        torch.mm(left[:, start:], lower[start:, start:end], out=product[:, start:end])
    return product


def invert_lower(lower: Tensor) -> None:
    """Replaces L by its inverse: of its two halves first, then of what is below them.

    Args:
        lower: float (columns, columns), with zeros above the diagonal.
    """
    columns = len(lower)
    if columns <= _BLOCK:
        eye = torch.eye(columns, dtype=lower.dtype, device=lower.device)
        lower.copy_(torch.linalg.solve_triangular(lower, eye, upper=False))
        return
    half = columns // 2 + -(columns // 2) % _BLOCK
    first, last = lower[:half, :half], lower[half:, half:]
    invert_lower(first)
    invert_lower(last)
    between = times_lower(lower[half:, :half], first)
    lower[half:, :half] = times_upper(between.T, last.T).T.neg_()
