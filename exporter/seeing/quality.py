"""How far integers move the rows that a model makes of pictures."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class RowQuality:
    """
    Attributes:
        rows: of tiles of held-out pictures.
        cosine_worst, cosine_mean: of a row with integers and the same in float.
    """

    rows: int
    cosine_worst: float
    cosine_mean: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@torch.no_grad()
def rows_of(module: Callable[[Tensor], Tensor], tiles: Sequence[Tensor]) -> Tensor:
    """Returns the rows of all tiles, (rows, numbers)."""
    return torch.cat([module(tile).flatten(0, -2) for tile in tiles])


def measure_rows(expected: Tensor, rows: Tensor) -> RowQuality:
    """Compares rows in float with those with integers, (rows, numbers) each."""
    cosines = F.cosine_similarity(expected.double(), rows.double(), dim=-1)
    return RowQuality(len(cosines), float(cosines.min()), float(cosines.mean()))
