"""Correction for inputs that have drifted: X of the float model, X' after quantized layers.

Plain GPTQ asks for X' Q^T close to X' W^T. What is wanted is X W^T. Without rounding the answer is
a least-squares problem, with H = X'^T X' and D = (X - X')^T X':

    W* = X W^T projected on X' = W + W D H^-1

and rounding W* by GPTQ in the metric of H solves all of it. The correction is scaled by a share
below 1, because the full correction overfits the text. GPTAQ and Qronos (quant.baselines.drift)
solve it in parts.

A linear that adds to the residual stream can do more: where the float stream holds r more than the
quantized one, its best outputs are X W^T + r, and C = W D + r^T X' takes the place of W D.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from quant.machine.device import HOST
from quant.machine.products import add_product
from quant.rounding.activations import Seen
from quant.rounding.gptq import InverseFactor


def drift_products(
    pairs: Iterable[tuple[Tensor, Seen]], columns: int, device: torch.device = HOST
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


def residual_products(pairs: Iterable[tuple[Tensor, Seen]], weight: Tensor) -> Tensor:
    """(Y + r)^T X' for `residual_drift`.

    Args:
        pairs: float32 (..., rows), Y + r, and X'.
        weight: float32 (rows, columns), padded.

    Returns:
        float32 (rows, columns).
    """
    products = torch.zeros_like(weight)
    for wanted, x in pairs:
        used, exact = products[:, : x.numbers.shape[1]], x.scale is not None
        add_product(used, x.weighted(wanted.flatten(0, -2)), x.numbers, exact)
    return products


def residual_drift(products: Tensor, tokens: int, weight: Tensor, hessian: Tensor) -> Tensor:
    """C = W D + r^T X' of a linear whose outputs Y' = X' W^T are added to a residual stream.

    It needs no X: what the float stream holds after its own linear, less what the quantized one
    holds before, is Y + r, and (Y + r)^T X' - W H = C.

    Args:
        products: of `residual_products`; their memory is reused.
        tokens: how many the products are of.
        weight: float32 (rows, columns), padded.
        hessian: of X', by `quant.rounding.gptq.hessian_of`.

    Returns:
        float32 (rows, columns).
    """
    return products.mul_(2 / max(tokens, 1)).addmm_(weight, hessian, alpha=-1)


def corrected(weight: Tensor, correlation: Tensor, factor: InverseFactor, share: float) -> Tensor:
    """W + share C H^-1: with C = W D and share 1, W* (with the damped H).

    Args:
        weight, correlation: float32 (rows, columns), W and C.
    """
    return weight + factor.solve(correlation).mul_(share)
