"""GPTQ (Frantar, Ashkboos, Hoefler, Alistarh, 2022): pure functions on one weight.

A linear's weight W (rows, columns) is quantized to Q so that its outputs on the calibration inputs
X (tokens, columns) stay: minimise ||X W^T - X Q^T||^2 = tr((W - Q) H (W - Q)^T), H = X^T X. Columns
are rounded one by one; after each, the remaining columns change to compensate for its error:

    delta = -(w_i - q_i) / [H^-1]_ii * [H^-1]_i,(i+1:)

where H is the Hessian of the columns still free. All those inverses are rows of one upper
triangular matrix U with H^-1 = U^T U, computed once:

    err_i = (w_i - q_i) / U_ii,    W_(i+1:) -= err_i U_i,(i+1:)

`act_order` takes the columns in order of falling diag(H). Groups are static: their scales are
fixed from W beforehand, so any order gives weights that need no reordering at run time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from quant.errors import QuantError
from quant.machine.device import HOST, rows_together
from quant.machine.threads import one_thread
from quant.rounding.scales import Grid, TwoLevelScales
from quant.rounding.triangular import invert_lower, times_lower, times_upper

_MAX_DAMP_PERCENT = 100.0
_HESSIAN_ROWS = 1024
_GRAM_ROWS = 256  # with 1536 columns, 0.78 of the time of 1024; of int8 matrices, 0.85


def gram(inputs: Iterable[Tensor], columns: int, device: torch.device = HOST) -> Tensor:
    """X^T X of the inputs of a linear, of which the upper triangle counts.

    Args:
        inputs: float32 (..., in_features) each.
        columns: of the padded weight, >= in_features; what is beyond in_features stays 0.
        device: of the inputs.

    Returns:
        float32 (columns, columns).
    """
    products = torch.zeros(columns, columns, device=device)
    for x in inputs:
        used = x.shape[-1]
        add_gram(products[:used, :used], x.flatten(0, -2))
    return products


def add_gram(products: Tensor, x: Tensor) -> None:
    """Adds X^T X of float32 (tokens, columns), the upper triangle and a bit."""
    for rows in upper_rows(products):
        products[rows, rows.start :].addmm_(x[:, rows].T, x[:, rows.start :])


def upper_rows(products: Tensor) -> Iterator[slice]:
    """The rows whose products from the diagonal on are computed together: what is left out below
    it is little less than half of a large matrix."""
    columns = len(products)
    for start in range(0, columns, _GRAM_ROWS):
        yield slice(start, min(start + _GRAM_ROWS, columns))


def hessian_of(products: Tensor, tokens: int) -> Tensor:
    """H = 2/N X^T X from the `gram` X^T X of N tokens, whose memory it reuses."""
    for start in range(0, len(products), _HESSIAN_ROWS):
        end = start + _HESSIAN_ROWS
        corner = products[start:end, start:end]
        corner.copy_(corner.triu() + corner.triu(1).T)
        products[end:, start:end] = products[start:end, end:].T
    return products.mul_(2 / max(tokens, 1))


@dataclass(frozen=True)
class InverseFactor:
    """U, upper triangular with (H / mean)^-1 = U^T U, of a damped Hessian in the order `order`."""

    upper: Tensor  # float32 (columns, columns), of the Hessian over `mean`
    order: Tensor  # int64 (columns,)
    mean: float  # of the live columns' diagonal
    damping: float  # what was added to the diagonal, in the Hessian's own unit

    def added(self, hessian: Tensor) -> Tensor:
        """What was added to the Hessian's diagonal: float32 (columns,)."""
        dead = hessian.diagonal() == 0
        return torch.where(dead, self.mean, 0.0).add_(self.damping)

    def damped(self, hessian: Tensor) -> Tensor:
        """A copy of the Hessian with what was added to its diagonal."""
        damped = hessian.clone()
        damped.diagonal().add_(self.added(hessian))
        return damped

    def inverse_diagonal(self) -> Tensor:
        """diag(H^-1) in the columns' own order: float32 (columns,)."""
        diagonal = self.upper.new_empty(len(self.order))
        diagonal[self.order] = self.upper.square().sum(dim=0) / self.mean
        return diagonal

    def solve(self, right: Tensor) -> Tensor:
        """right H^-1 for float32 (rows, columns), with the damped H."""
        ordered = right.index_select(1, self.order)
        product = times_lower(ordered, self.upper.T).div_(self.mean)
        product = times_upper(product, self.upper)
        solved = torch.empty_like(product)
        solved[:, self.order] = product
        return solved


def inverse_factor(
    hessian: Tensor, damp_percent: float = 1.0, act_order: bool = True
) -> InverseFactor:
    """Damps a Hessian and factors its inverse; weights with the same input share the result.

    Dead columns (inputs that were always 0) get a diagonal of 1: nothing is moved from or to
    them, and they are rounded to nearest. With H = R R^T for R upper triangular (the Cholesky
    factor of H read backwards), U = R^-1: no inverse of H is formed.

    Args:
        hessian: float32 (columns, columns), positive semidefinite.
        damp_percent: of the mean diagonal, added to the diagonal; repeatedly ten times as much
            while the matrix is not positive definite in float32.

    Raises:
        QuantError: the Hessian is not finite.
    """
    diagonal = hessian.diagonal()
    if not diagonal.isfinite().all():
        raise QuantError(
            "the calibration inputs of a layer are not finite; GPTQ needs finite activations: "
            "check the checkpoint's weights."
        )
    dead = diagonal == 0
    order = torch.arange(len(diagonal), device=hessian.device)
    if act_order:
        order = torch.argsort(diagonal, descending=True, stable=True)
    # Scaled to a mean diagonal of 1: what follows is the same for inputs of any size.
    mean = (diagonal.sum() / (~dead).sum().clamp_min(1)).item() or 1.0
    backwards = order.flip(0)
    # By rows, then columns: both at once takes three times as long.
    reversed_hessian = hessian.index_select(0, backwards).index_select(1, backwards).div_(mean)
    reversed_diagonal = reversed_hessian.diagonal()
    reversed_diagonal.masked_fill_(dead[backwards], 1.0)
    damped = 0.0
    while damp_percent <= _MAX_DAMP_PERCENT:
        reversed_diagonal.add_(damp_percent / 100 - damped)
        lower, failed = torch.linalg.cholesky_ex(reversed_hessian)
        if failed == 0:
            del reversed_hessian, reversed_diagonal  # as large as the largest layer
            invert_lower(lower)
            return InverseFactor(lower.flip(0, 1), order, mean, mean * damp_percent / 100)
        damped, damp_percent = damp_percent / 100, max(damp_percent * 10, 0.1)
    raise QuantError(
        "the Hessian of a layer cannot be factored even with a damping of "
        f"{_MAX_DAMP_PERCENT:.0f}%; its calibration inputs are too large for float32: check the "
        "weights."
    )


def gptq(
    weight: Tensor,
    scales: TwoLevelScales,
    factor: InverseFactor,
    block_size: int = 128,
    carry: Tensor | None = None,
    first: Tensor | None = None,
) -> Tensor:
    """Rounds a weight to integers so that its outputs stay close.

    Works in units of the row's scale, where a group's steps are its multiple. The update
    of the columns beyond a block is delayed until the block is done (one matrix product).

    Args:
        weight: float32 (rows, columns), not changed.
        scales: of static groups, columns / groups wide.
        factor: of the Hessian of the weight's inputs.
        block_size: columns that are updated one by one.
        carry: float32 (columns, columns), strictly upper, in the factor's order: a column w_i
            adds w_i carry_i to those behind it (GPTAQ: `quant.baselines.drift.gptaq_carry`).
        first: float32 (rows,): what is rounded in place of the first column in the factor's
            order (Qronos: `quant.baselines.drift.qronos_first`).

    Returns:
        int8 (rows, columns) on the grid of `scales`.
    """
    values = weight.new_empty(weight.shape, dtype=torch.int8)
    together = rows_together(weight.device)
    for start in range(0, weight.shape[0], together):
        rows = slice(start, start + together)
        row_scale = scales.row_scale[rows]
        free = (weight[rows] / row_scale).T[factor.order]  # (columns, rows): not yet rounded
        group_size = weight.shape[1] // scales.multiple.shape[1]
        steps = scales.multiple[rows].repeat_interleave(group_size, dim=1).T[factor.order].float()
        start_value = None if first is None else first[rows] / row_scale.squeeze(1)
        rounded = _round_rows(
            free, steps, scales.grid, factor.upper, block_size, carry, start_value
        )
        ordered = torch.empty_like(rounded, dtype=torch.int8)
        ordered[factor.order] = rounded.to(torch.int8)
        values[rows] = ordered.T
    return values


def _round_rows(
    free: Tensor,
    steps: Tensor,
    grid: Grid,
    upper: Tensor,
    block_size: int,
    carry: Tensor | None,
    first: Tensor | None,
) -> Tensor:
    """Rounds some rows, transposed and in the factor's order; `free` is used up."""
    values = torch.empty_like(free)
    for start in range(0, len(free), block_size):
        end = min(start + block_size, len(free))
        block, here = free[start:end], slice(start, end)
        with one_thread():
            errors = _round_block(
                block,
                steps[here],
                grid,
                upper[here, here],
                values[here],
                None if carry is None else carry[here, here],
                first if start == 0 else None,
            )
        free[end:].addmm_(upper[here, end:].T, errors, alpha=-1)
        if carry is not None:
            free[end:].addmm_(carry[here, end:].T, block)
    return values


def compile_loops() -> None:
    """Compiles the loops over columns, or loads them, if that has not been done: it takes seconds,
    which then are not the first weight's."""
    from quant.rounding.compiled import compile_for
    from quant.rounding.scales import GRIDS

    compile_for(next(iter(GRIDS.values())))


def _round_block(
    free: Tensor,
    steps: Tensor,
    grid: Grid,
    upper: Tensor,
    values: Tensor,
    carry: Tensor | None,
    first: Tensor | None,
) -> Tensor:
    """Rounds the columns of one block, all (block, rows), into `values`; returns err_i."""
    if free.device == HOST and carry is None and first is None:
        from quant.rounding.compiled import round_block  # here: half a second to import

        return round_block(free, steps, grid, upper, values)
    errors = torch.empty_like(free)
    diagonal = upper.diagonal().tolist()
    rows = zip(free.unbind(), steps.unbind(), values.unbind(), errors.unbind(), strict=True)
    for i, (column, step, rounded, error) in enumerate(rows):
        aim = first if i == 0 and first is not None else column
        grid.nearest_(torch.div(aim, step, out=rounded))
        torch.mul(rounded, step, out=error)
        torch.sub(column, error, out=error).div_(diagonal[i])
        free[i + 1 :].addr_(upper[i, i + 1 :], error, alpha=-1)
        if carry is not None:
            free[i + 1 :].addr_(carry[i, i + 1 :], column)
    return errors
