"""Finds two levels in a matrix of scales: a float for each row, an integer for each group."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FEW = 8  # groups of a row, in which almost every wrong float is found


@dataclass(frozen=True)
class TwoLevels:
    """scales = multiples * row_scales[:, None], exactly.

    Attributes:
        multiples: uint8 (rows, groups), at least 1.
        row_scales: float32 (rows,).
    """

    multiples: NDArray[np.uint8]
    row_scales: NDArray[np.float32]


def find_two_levels(scales: NDArray[np.float32], most: int) -> TwoLevels | None:
    """Returns the two levels of scales (rows, groups), or None if a row has no such levels.

    A row's smallest scale is one of 1 to `most` times the row's float: each is tried, the smallest
    that fits wins. float64 holds every product here exactly, so no tolerance is needed. A row
    of zeros has row scale 0 and multiples 1.
    """
    smallest = scales.min(axis=1)
    row_scales = np.zeros_like(smallest)
    multiples = np.ones(scales.shape, dtype=np.uint8)
    open_rows = np.flatnonzero(scales.any(axis=1))
    if (smallest[open_rows] <= 0).any():
        return None
    for divisor in range(1, most + 1):
        candidate = (smallest[open_rows] / np.float32(divisor)).astype(np.float64)
        fits = _ratios(scales[open_rows, :_FEW], candidate, most)[1]
        ratio, all_fit = _ratios(scales[open_rows[fits]], candidate[fits], most)
        fits[fits] = all_fit
        rows = open_rows[fits]
        row_scales[rows] = candidate[fits]
        multiples[rows] = ratio[all_fit]
        open_rows = open_rows[~fits]
        if not open_rows.size:
            return TwoLevels(multiples, row_scales)
    return None if open_rows.size else TwoLevels(multiples, row_scales)


def _ratios(
    scales: NDArray[np.float32], candidates: NDArray[np.float64], most: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns scales (rows, groups) over a candidate for each row, rounded, and which rows consist
    of integers of at most `most`."""
    wide = scales.astype(np.float64)
    ratio = np.rint(wide / candidates[:, None])
    exact = (ratio * candidates[:, None] == wide).all(axis=1)
    return ratio, exact & (ratio <= most).all(axis=1)
