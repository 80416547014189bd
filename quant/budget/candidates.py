"""The types that a part may have, and what rounding a weight to them costs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from quant.method import Method
from quant.rounding.gptq import inverse_factor
from quant.rounding.nearest import round_weight
from quant.weight_type import WeightType

_BLOCK = 192  # columns, of a thousand tokens
_ROUNDED_ROWS = 128

Costs = tuple[float, ...]  # KL in nats a token, of a part stored in each of some types


@dataclass(frozen=True)
class Candidates:
    """The types that a part may have, and how much rounding to them changes a weight."""

    method: Method
    types: tuple[WeightType, ...]

    def rounded(
        self, weight: Tensor, name: str, importance: Tensor | None = None
    ) -> Iterator[Tensor]:
        """Yields the change of a weight (rows, columns) by rounding to each type."""
        method = replace(self.method, rounding="nearest")
        for type in self.types:
            stored = round_weight(weight, type, name, method, importance).dequantize()
            yield stored[:, : weight.shape[1]].sub_(weight)

    def squares(self, weight: Tensor, name: str, information: Tensor) -> Tensor:
        """E[(g . e)^2] at each type: float64 (types,).

        Only some rows are rounded, drawn in proportion to E[(g . w x)^2], which is what a row's
        share would be if rounding changed all weights by the same factor.

        Args:
            information: E[g^2 x^2] of each number of the weight: float32 (rows, columns).
        """
        mass = weight.square().mul_(information).sum(dim=1, dtype=torch.float64)
        total = mass.sum()
        if total == 0:
            return mass.new_zeros(len(self.types))
        drawn = (torch.arange(_ROUNDED_ROWS, device=mass.device) + 0.5) * (total / _ROUNDED_ROWS)
        rows = torch.searchsorted(mass.cumsum(dim=0), drawn).clamp_max_(len(mass) - 1)
        importance = information.sum(dim=0) if self.method.follows_calibration else None
        weight, information, mass = weight[rows], information[rows], mass[rows]
        changes = self.rounded(weight, name, importance)
        moved = [c.square_().mul_(information).sum(dim=1, dtype=torch.float64) for c in changes]
        return torch.stack([(errors / mass).mean() * total for errors in moved])

    def compensation(self) -> "Compensation | None":
        """Returns what measures GPTQ's compensation, if the method is GPTQ."""
        return Compensation() if self.method.rounding == "gptq" else None

    def costs(
        self, squares: Tensor, compensation: "Compensation | None", damp: float = 1.0
    ) -> Costs:
        """KL from E[(g . e)^2] at each type: float (types,)."""
        share = 1.0 if compensation is None else compensation.share_left(damp)
        shares = (share if type.in_groups else 1.0 for type in self.types)
        return tuple(s * h for s, h in zip(shares, (squares / 2).tolist(), strict=True))


class Compensation:
    """How much of the cost of rounding remains with GPTQ, by a weight's inputs.

    Only blocks on the Hessian's diagonal are used, small enough for the tokens to determine them.
    """

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []

    def add(self, inputs: Tensor) -> None:
        """Adds inputs (tokens, columns)."""
        columns = inputs.shape[1]
        width = min(columns, _BLOCK)
        parts = inputs.split(width, dim=1)
        if not self._blocks:
            self._blocks = [part.new_zeros(part.shape[1], part.shape[1]) for part in parts]
        for block, part in zip(self._blocks, parts, strict=True):
            block.addmm_(part.T, part)

    def share_left(self, damp_percent: float = 1.0) -> float:
        """From 0 to 1; 1 if there were no inputs."""
        left = whole = 0.0
        for block in self._blocks:
            factor = inverse_factor(block, damp_percent)
            left += factor.mean * factor.upper.diagonal().square().reciprocal().sum().item()
            whole += block.diagonal().sum().item()
        return min(left / whole, 1.0) if whole else 1.0
