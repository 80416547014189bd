"""A model with one line made slow on purpose, and a recorded run of it."""

from pathlib import Path

import torch
from support.recorded_runs import record_module, seeded
from torch import Tensor, nn

SLOW = "# the slow line"  # how that line ends


class OneSlowLine(nn.Module):
    """Sums, and a product that takes a hundred times as long as all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.quick = nn.Linear(64, 64)
        self.slow = nn.Linear(64, 64 * 512)

    def forward(self, x: Tensor) -> Tensor:
        x = self.quick(x) + 1.0
        x = self.slow(x).view(-1, 512, 64).sum(1)  # the slow line
        return torch.tanh(self.quick(x))


def record_slow_line(directory: Path) -> tuple[Path, Path]:
    """Its ETDump and ETRecord; module.pte lies beside them."""
    return record_module(OneSlowLine(), (seeded(64, 64),), directory)
