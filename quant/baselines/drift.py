"""Two published methods for inputs that have drifted: see quant.rounding.drift for X, X' and D.

GPTAQ (Li, Yin, Lee, Xiao, Panda, 2025) adds the part of the correction that each column can no
longer undo; Qronos (Zhang, Zhang, Colbert, Saab, 2025) rounds the first column from its own optimum
and all others from W*.
"""

from torch import Tensor

from quant.rounding.gptq import InverseFactor


def gptaq_carry(drift: Tensor, factor: InverseFactor, share: float) -> Tensor:
    """P of GPTAQ: in the factor's order, P = share (D U^T, strictly upper) U.

    Args:
        drift: D (columns, columns), in the columns' own order.
    """
    ordered = drift[factor.order][:, factor.order] / factor.mean
    return (ordered @ factor.upper.T).triu_(1).mul_(share) @ factor.upper


def qronos_first(
    weight: Tensor, drift: Tensor, hessian: Tensor, factor: InverseFactor, share: float
) -> Tensor:
    """The first column of Qronos: its optimum if no other column changes, w_1 + (W D)_1 / H_11.

    Args:
        drift: D (columns, columns), in the columns' own order.

    Returns:
        float32 (rows,).
    """
    first = int(factor.order[0])
    diagonal = hessian[first, first] + factor.damping
    if hessian[first, first] == 0:
        return weight[:, first]
    return weight[:, first] + weight @ drift[:, first] / diagonal * share
