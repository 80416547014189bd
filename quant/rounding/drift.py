"""Correction for inputs that have drifted: X of the float model, X' after quantized layers.

Plain GPTQ asks for X' Q^T close to X' W^T. What is wanted is X W^T. Without rounding the answer is
a least-squares problem, with H = X'^T X' and D = (X - X')^T X':

    W* = X W^T projected on X' = W + W D H^-1

and rounding W* by GPTQ in the metric of H solves all of it. The correction is scaled by a share
below 1, because the full correction overfits the text. GPTAQ and Qronos (quant.baselines.drift)
solve it in parts.

A linear that adds to the residual stream can do more: where the float stream holds r more than the
quantized one, its best outputs are Y = X W^T + r. With B = Y^T X' and the damping L on the diagonal
of H, the same least-squares problem has the answer

    W* = (B + W L) (H + L)^-1

which needs no X.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from quant.machine.device import HOST
from quant.machine.products import add_product
from quant.rounding.activations import RuntimeInputs
from quant.rounding.gptq import InverseFactor


def drift_products(
    pairs: Iterable[tuple[Tensor, RuntimeInputs]], columns: int, device: torch.device = HOST
) -> Tensor:
    """(X - X')^T X' of pairs (X, X'); D = 2/N times that, for N tokens.

    Args:
        pairs: float32 (..., in_features) of the float model, and the quantized one's.
        columns: of the padded weight; what is beyond in_features stays 0.
        device: of the pairs.

    Returns:
        float32 (columns, columns).
    """
    products = torch.zeros(columns, columns, device=device)
    for reference, x in pairs:
        drifted = x.weighted(reference.flatten(0, -2) - x.floats())
        used = drifted.shape[1]
        add_product(products[:used, :used], drifted, x.numbers, exact=x.scale is not None)
    return products


def residual_products(pairs: Iterable[tuple[Tensor, RuntimeInputs]], weight: Tensor) -> Tensor:
    """Y^T X'; B = 2/N times that, for N tokens.

    Args:
        pairs: float32 (..., rows), Y, and X': what the float stream holds behind its own linear,
            less what the quantized one holds before, is Y.
        weight: float32 (rows, columns), padded.

    Returns:
        float32 (rows, columns).
    """
    products = torch.zeros_like(weight)
    for target, x in pairs:
        used, exact = products[:, : x.numbers.shape[1]], x.scale is not None
        add_product(used, x.weighted(target.flatten(0, -2)), x.numbers, exact)
    return products


def correction(drift: Tensor, factor: InverseFactor, share: float) -> Tensor:
    """share D H^-1, by which any weight with these inputs is corrected: W + W (share D H^-1)."""
    return factor.solve(drift).mul_(share)


def corrected(weight: Tensor, correlation: Tensor, factor: InverseFactor, share: float) -> Tensor:
    """W + share C H^-1: with C = W D and share 1, W* (with the damped H).

    Args:
        weight, correlation: float32 (rows, columns), W and C.
    """
    return weight + factor.solve(correlation).mul_(share)


def aimed(
    weight: Tensor, wanted: Tensor, hessian: Tensor, factor: InverseFactor, share: float
) -> Tensor:
    """W + share (W* - W), with W* by its second form.

    Args:
        weight, wanted: float32 (rows, columns), W and B.
        hessian: H, as it was before `factor` was made of it.
    """
    best = factor.solve(torch.addcmul(wanted, weight, factor.added(hessian)))
    return torch.lerp(weight, best, share)
