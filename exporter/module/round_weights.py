"""Rounds the weights of thin convolutions, as depthwise ones are, one after the other, each with
regard to what those before it lost (GPTQ; Frantar et al., 2022): few weights cannot make up for
each other by chance."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

MOST = 64  # weights of an output that are still thin
_DAMPING = 0.01
_LEVELS = 127


@dataclass
class Products:
    """Sums of x x^T over all places of a convolution's input, by group.

    Attributes:
        sides: kernel, stride, padding, dilation.
        total: float64 (groups, weights of an output, the same).
    """

    sides: tuple[Any, Any, Any, Any]
    groups: int
    total: Tensor | None = None

    def add(self, x: Tensor) -> None:
        """
        Args:
            x: (batch, channels, height, width), or without a height.
        """
        kernel, stride, padding, dilation = self.sides
        picture = x if x.dim() == 4 else x[:, :, None]
        rows = F.unfold(picture.float(), kernel, dilation, padding, stride)
        by_group = rows.unflatten(1, (self.groups, -1)).permute(1, 2, 0, 3).flatten(2)
        products = (by_group @ by_group.transpose(1, 2)).double()
        self.total = products if self.total is None else self.total + products


def rounded(weight: Tensor, scales: Tensor, products: Tensor) -> Tensor:
    """Returns a weight whose numbers are multiples of their output's scale.

    Args:
        weight: (outputs, ...) of as many numbers as the products have rows.
        scales: (outputs,), positive.
        products: of Products, (groups, n, n).
    """
    groups, n, _ = products.shape
    rows = weight.double().reshape(groups, -1, n).clone()
    steps = scales.double().reshape(groups, -1)
    diagonal = products.diagonal(dim1=1, dim2=2)
    damped = diagonal.mean(1, keepdim=True) * _DAMPING
    hessian = products + torch.diag_embed(damped.clamp(min=1e-12).expand(-1, n))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    upper = torch.linalg.cholesky(inverse, upper=True)
    result = torch.empty_like(rows)
    for at in range(n):
        column = rows[:, :, at]
        result[:, :, at] = (column / steps).round().clamp(-_LEVELS, _LEVELS) * steps
        lost = (column - result[:, :, at]) / upper[:, at, at, None]
        rows[:, :, at:] -= lost[..., None] * upper[:, None, at, at:]
    return result.reshape(weight.shape)
