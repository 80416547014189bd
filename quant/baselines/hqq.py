"""HQQ (Badri and Shaji, 2023), for symmetric scales: needs no data, robust to outliers.

Scales s and integers q are to minimise |W - s q|^p, p < 1, which tolerates a few large errors. With
an auxiliary E for the error, half-quadratic splitting alternates

    E = shrink(W - s q),  shrink(x) = sign(x) max(|x| - |x|^(p-1) / beta, 0)
    s = <W - E, q> / <q, q>,  q = round(W / s)

with beta growing by kappa each time. (The original moves the zero point; here there is none.)
"""

import torch
from torch import Tensor

from quant.rounding.scales import INT4, Grid, TwoLevelScales, grid_scales

_NORM = 0.7
_BETA, _KAPPA = 10.0, 1.01
_ITERATIONS = 20
_SMALLEST = 1e-30


def hqq_scales(weight: Tensor, group_size: int, grid: Grid = INT4) -> TwoLevelScales:
    """The grid's scales nearest to what half-quadratic splitting finds.

    Args:
        weight: float32 (rows, columns), columns a multiple of group_size.
    """
    groups = weight.unflatten(1, (-1, group_size))
    largest = groups.abs().amax(dim=2, keepdim=True).clamp_min(_SMALLEST)
    groups = groups / largest  # so that beta means the same everywhere
    scale = torch.full_like(largest, 1 / grid.half_range)
    best, best_error = scale, torch.full_like(scale, torch.inf)
    beta = _BETA
    for _ in range(_ITERATIONS):
        values = grid.nearest_(groups / scale)
        error = groups - values * scale
        norm = error.abs().pow(_NORM).sum(dim=2, keepdim=True)
        best = torch.where(norm < best_error, scale, best)
        best_error = torch.minimum(norm, best_error)
        size = error.abs().clamp_min(_SMALLEST)
        shrunk = error.sign() * (size - size.pow(_NORM - 1) / beta).clamp_min_(0)
        fitted = ((groups - shrunk) * values).sum(dim=2, keepdim=True)
        weight_of_values = values.square().sum(dim=2, keepdim=True)
        scale = torch.where(fitted > 0, fitted / weight_of_values.clamp_min(1), scale)
        beta *= _KAPPA
    return grid_scales((best * largest).squeeze(2) * grid.half_range, grid)
