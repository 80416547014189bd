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


@dataclass(frozen=True)
class HeldOut:
    """
    Attributes:
        tiles: of held-out pictures.
        rows: what the model makes of all of them in float, (rows, numbers).
    """

    tiles: Sequence[Tensor]
    rows: Tensor

    @classmethod
    def of(cls, module: Callable[[Tensor], Tensor], tiles: Sequence[Tensor]) -> "HeldOut":
        return cls(tiles, _rows_of(module, tiles))

    def measure(self, module: Callable[[Tensor], Tensor]) -> RowQuality:
        """Compares the rows with those of the same model with integers."""
        rows = _rows_of(module, self.tiles).double()
        cosines = F.cosine_similarity(self.rows.double(), rows, dim=-1)
        return RowQuality(len(cosines), float(cosines.min()), float(cosines.mean()))


@torch.no_grad()
def _rows_of(module: Callable[[Tensor], Tensor], tiles: Sequence[Tensor]) -> Tensor:
    return torch.cat([module(tile).flatten(0, -2) for tile in tiles])
