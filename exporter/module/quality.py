"""How far integers move a module's answers from those in float."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

_LEAST_COSINE = 0.99


@dataclass(frozen=True)
class ModuleQuality:
    """
    Attributes:
        worst_cosine, mean_cosine: between an output with integers and in float.
        answers: rows of the outputs: each has a largest number.
        changed: rows whose largest number is another.
    """

    worst_cosine: float
    mean_cosine: float
    answers: int
    changed: int

    @property
    def is_good(self) -> bool:
        return self.changed == 0 and self.worst_cosine >= _LEAST_COSINE

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    floats: Sequence[Sequence[Tensor]], integers: Sequence[Sequence[Tensor]]
) -> ModuleQuality:
    """Compares calls: the outputs of each in float, and with integers."""
    cosines, answers, changed = [], 0, 0
    for expected, got in zip(floats, integers, strict=True):
        for want, have in zip(expected, got, strict=True):
            if not want.is_floating_point() or want.numel() < 2:
                continue
            a, b = want.double().flatten().nan_to_num(), have.double().flatten().nan_to_num()
            cosines.append(float(torch.nn.functional.cosine_similarity(a, b, dim=0, eps=1e-30)))
            if want.dim() < 2 or want.shape[-1] < 2:
                continue
            best = want.argmax(-1) != have.argmax(-1)
            answers, changed = answers + best.numel(), changed + int(best.sum())
    known = cosines or [1.0]
    return ModuleQuality(min(known), sum(known) / len(known), answers, changed)
