"""Coordinate descent after GPTQ: each integer and scale is optimized while all others stay.

GPTQ never changes a rounded column again. Here each one is reconsidered: with R = W - Q and
the gradient G = R H, moving column i of a row by d changes its error tr(R H R^T) by

    -2 d G_i + d^2 H_ii

so that the best integer for it, all others fixed, is q_i + G_i / (H_ii s) rounded (coordinate
descent as in QuantEase, Behdin et al., 2023). A group's integer scale k is moved in
the same way, and with it the integers of its group: k - 1, k and k + 1 are each tried with the
group's integers descended for them, and the least error wins. So scales are refitted after
rounding, on their grid, in the Hessian's metric. No step makes the error larger.
"""

import torch
from torch import Tensor

from quant.machine.device import HOST, rows_together
from quant.machine.threads import one_thread
from quant.rounding.scales import Grid, TwoLevelScales

_BLOCK = 256  # columns whose gradient is computed together (one matrix product)
_STEPS = (0, -1, 1)  # of a group's integer scale


def descend(
    target: Tensor,
    values: Tensor,
    scales: TwoLevelScales,
    hessian: Tensor,
    sweeps: int,
) -> tuple[Tensor, TwoLevelScales]:
    """Lowers tr((W - Q) H (W - Q)^T), a group of columns at a time.

    Args:
        target: float32 (rows, columns), the weight W.
        values: int8 (rows, columns), to begin with.
        scales: to begin with; the row scales stay.
        hessian: float32 (columns, columns), damped as it was factored.
        sweeps: over all groups; it ends early when nothing changes any more.

    Returns:
        The new values and scales.
    """
    new_values, multiple = torch.empty_like(values), torch.empty_like(scales.multiple)
    together = rows_together(target.device)
    for start in range(0, len(values), together):
        rows = slice(start, start + together)
        problem = _Rows(
            target[rows] / scales.row_scale[rows],
            values[rows],
            scales.multiple[rows],
            scales.grid,
            hessian,
        )
        for _ in range(sweeps):
            if not problem.sweep():
                break
        new_values[rows], multiple[rows] = problem.values(), problem.multiple.T
    return new_values, TwoLevelScales(multiple, scales.row_scale, scales.grid)


class _Rows:
    """Some rows of a weight, transposed, in units of the row's scale."""

    def __init__(
        self, target: Tensor, values: Tensor, multiple: Tensor, grid: Grid, hessian: Tensor
    ) -> None:
        self._grid = grid
        self._hessian = hessian
        self._group_size = values.shape[1] // multiple.shape[1]
        self._values = values.T.float().contiguous()  # (columns, rows)
        self.multiple = torch.empty_like(multiple.T, memory_format=torch.contiguous_format)
        self.multiple.copy_(multiple.T)  # (groups, rows)
        steps = self.multiple.repeat_interleave(self._group_size, dim=0)
        self._residual = target.T.contiguous() - self._values * steps  # (columns, rows)

    def values(self) -> Tensor:
        """int8 (rows, columns)."""
        return self._values.T.to(torch.int8)

    def sweep(self) -> bool:
        """Goes over all groups once; returns whether anything changed."""
        changed = False
        columns = len(self._values)
        width = max(self._group_size, _BLOCK - _BLOCK % self._group_size)
        for start in range(0, columns, width):
            block = slice(start, start + width)
            gradient = self._hessian[block] @ self._residual  # (columns of the block, rows)
            with one_thread():
                changes = self._sweep_block(start, gradient)
            if changes.any():
                changed = True
                self._residual[block] -= changes
        return changed

    def _sweep_block(self, start: int, gradient: Tensor) -> Tensor:
        """Descends the groups of some columns, whose gradient is kept up to date for those to come;
        returns by how much Q moved."""
        changes = torch.empty_like(gradient)
        block = slice(start, start + len(gradient))
        for first in range(0, len(gradient), self._group_size):
            here = slice(first, first + self._group_size)
            columns = slice(start + first, start + first + self._group_size)
            changes[here] = self._descend_group(columns, gradient[here])
            later = gradient[here.stop :]
            later.addmm_(self._hessian[columns.stop : block.stop, columns], changes[here], alpha=-1)
        return changes

    def _descend_group(self, columns: slice, gradient: Tensor) -> Tensor:
        """Finds the best integers and scale of the group of these columns, whose gradient this is;
        returns by how much Q moved."""
        hessian = self._hessian[columns, columns]
        if hessian.device != HOST:
            return self._descend_by_steps(columns, gradient)
        from quant.rounding.compiled import descend_group  # here: half a second to import

        values, group = self._values[columns], columns.start // self._group_size
        return descend_group(values, self.multiple[group], gradient, hessian, self._grid)

    def _descend_by_steps(self, columns: slice, gradient: Tensor) -> Tensor:
        """The same, a call of PyTorch for each step."""
        hessian, values = self._hessian[columns, columns], self._values[columns]
        group = columns.start // self._group_size
        multiple = self.multiple[group].float()  # (rows,)
        candidates = torch.cat([(multiple + step).clamp_(1, self._grid.most) for step in _STEPS])
        gradients = gradient.repeat(1, len(_STEPS))
        before = (values * multiple).repeat(1, len(_STEPS))
        descended = _descend_columns(hessian, gradients, before, candidates, self._grid)
        changes = (descended * candidates).sub_(before)
        gains = (changes * gradients.mul_(2).sub_(hessian @ changes)).sum(dim=0)
        best_values, best_multiple, best_gain = values, multiple, torch.zeros_like(multiple)
        tried = (gains, candidates, descended)
        for gain, candidate, integers in zip(
            *(part.chunk(len(_STEPS), dim=-1) for part in tried), strict=True
        ):
            better = gain > best_gain
            best_gain = torch.where(better, gain, best_gain)
            best_multiple = torch.where(better, candidate, best_multiple)
            best_values = torch.where(better, integers, best_values)
        change = (best_values * best_multiple).sub_(values * multiple)
        self._values[columns] = best_values
        self.multiple[group] = best_multiple.to(torch.uint8)
        return change


def _descend_columns(
    hessian: Tensor, gradient: Tensor, before: Tensor, scale: Tensor, grid: Grid
) -> Tensor:
    """One sweep over a group's columns at the scales `scale`; gradient is as at Q = `before`.

    Args:
        hessian: float32 (columns, columns).
        gradient, before: float32 (columns, rows).
        scale: float32 (rows,).

    Returns:
        The integers, float32 (columns, rows).
    """
    codes = grid.nearest_(before / scale)
    gradient = torch.addmm(gradient, hessian, codes * scale - before, alpha=-1)
    unit = hessian.diagonal().unsqueeze(1) * scale
    integers = torch.empty_like(codes)
    rows = zip(gradient.unbind(), unit.unbind(), codes.unbind(), integers.unbind(), strict=True)
    for i, (steepness, step, old, new) in enumerate(rows):
        grid.nearest_(torch.div(steepness, step, out=new).add_(old))
        change = torch.sub(new, old, out=old).mul_(scale)
        gradient[i + 1 :].addr_(hessian[i, i + 1 :], change, alpha=-1)
    return integers
