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

How much of a correction holds on other text can be estimated. Of what is chance alone, least
squares over N tokens explain columns / N all the same. With F the ratio of what each column
explains to what each token beyond them leaves unexplained, 1 - 1 / F of the correction is no
chance, and that share of it is expected to lose the least (James and Stein, 1961). Each output has
a share of its own (`shrunk_share`). Few bits drift far, and need it most.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from quant.machine.device import HOST
from quant.machine.products import add_product
from quant.rounding.activations import RuntimeInputs
from quant.rounding.gptq import InverseFactor


def drift_products(
    pairs: Iterable[tuple[Tensor, RuntimeInputs]],
    columns: int,
    device: torch.device = HOST,
    with_squares: bool = False,
) -> Tensor:
    """(X - X')^T X' of pairs (X, X'); D = 2/N times that, for N tokens.

    Args:
        pairs: float32 (..., in_features) of the float model, and the quantized one's.
        columns: of the padded weight; what is beyond in_features stays 0.
        device: of the pairs.
        with_squares: one more column, the sums of squares of X - X'.

    Returns:
        float32 (columns, columns), or one more.
    """
    products = torch.zeros(columns, columns + with_squares, device=device)
    for reference, x in pairs:
        drifted = reference.flatten(0, -2) - x.floats()
        used = drifted.shape[1]
        if with_squares:
            products[:used, columns] += drifted.square().sum(dim=0)
        weighted, exact = x.weighted(drifted), x.scale is not None
        add_product(products[:used, :used], weighted, x.numbers, exact)
    return products


def residual_products(
    pairs: Iterable[tuple[Tensor, RuntimeInputs]], weight: Tensor, with_squares: bool = False
) -> Tensor:
    """Y^T X'; B = 2/N times that, for N tokens.

    Args:
        pairs: float32 (..., rows), Y, and X': what the float stream holds behind its own linear,
            less what the quantized one holds before, is Y.
        weight: float32 (rows, columns), padded.
        with_squares: one more column, the sums of squares of Y.

    Returns:
        float32 (rows, columns), or one more.
    """
    rows, columns = weight.shape
    products = weight.new_zeros(rows, columns + with_squares)
    for target, x in pairs:
        target = target.flatten(0, -2)
        if with_squares:
            products[:, columns] += target.square().sum(dim=0)
        used, exact = products[:, : x.numbers.shape[1]], x.scale is not None
        add_product(used, x.weighted(target), x.numbers, exact)
    return products


def shrunk_share(explained: Tensor, whole: Tensor, columns: int, tokens: int) -> Tensor:
    """The share 1 - 1 / F of least squares that is no chance.

    Args:
        explained, whole: float32 (rows,), sums of squares over the tokens, in any unit: what the
            correction takes away, and what there was.
        columns: that are not always 0.
        tokens: none is left to tell chance by if they are no more than the columns: 0.

    Returns:
        float32 (rows, 1), 0 to 1.
    """
    if tokens <= columns:
        return torch.zeros_like(whole)[:, None]
    chance = (whole - explained).clamp_min_(0).mul_(columns / (tokens - columns))
    share = torch.where(explained > 0, 1 - chance / explained, 0)
    return share.clamp_(0, 1)[:, None]


def correction(drift: Tensor, factor: InverseFactor, share: float) -> Tensor:
    """share D H^-1, by which any weight with these inputs is corrected: W + W (share D H^-1)."""
    return factor.solve(drift).mul_(share)


def shrunk_correction(drift: Tensor, factor: InverseFactor, columns: int, tokens: int) -> Tensor:
    """The same with a share for each input that has drifted.

    Args:
        drift: D with its squares.
        columns, tokens: as in `shrunk_share`.
    """
    drift, squares = drift[:, :-1], drift[:, -1]
    whole = factor.solve(drift)
    explained = (whole * drift).sum(dim=1)
    return whole.mul_(shrunk_share(explained, squares, columns, tokens))


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
    return torch.lerp(weight, _best(weight, wanted, hessian, factor), share)


def shrunk_aim(
    weight: Tensor, wanted: Tensor, hessian: Tensor, factor: InverseFactor, tokens: int
) -> Tensor:
    """The same with a share for each output.

    Args:
        wanted: B with its squares.
        tokens: of the text.
    """
    wanted, squares = wanted[:, :-1], wanted[:, -1]
    change = _best(weight, wanted, hessian, factor).sub_(weight)
    own = weight @ hessian
    explained = ((wanted - own) * change).sum(dim=1)
    whole = squares - ((2 * wanted - own) * weight).sum(dim=1)
    columns = int(hessian.diagonal().count_nonzero())
    return change.mul_(shrunk_share(explained, whole, columns, tokens)).add_(weight)


def _best(weight: Tensor, wanted: Tensor, hessian: Tensor, factor: InverseFactor) -> Tensor:
    """W* by its second form."""
    return factor.solve(torch.addcmul(wanted, weight, factor.added(hessian)))
