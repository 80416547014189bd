"""How fast the two costly parts of GPTQ run, compared with this machine's matrix products."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from quant.machine.device import HOST
from quant.method import Method

_PEAK_SIZE = 1536
_GPU_PEAK_SIZE = 8192
_PEAK_ROUNDS = 5


@dataclass
class Speed:
    """Seconds and useful operations (a multiplication and an addition are two), by part.

    Attributes:
        seconds, operations: of "hessian" (X^T X, its factor) and "update" (integers and scales).
    """

    seconds: dict[str, float] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def timed(self, part: str, operations: int, device: torch.device = HOST) -> Iterator[None]:
        """Counts the block's time on a device, and its operations."""
        _wait_for(device)
        started = time.perf_counter()
        yield
        _wait_for(device)
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started
        self.operations[part] = self.operations.get(part, 0) + operations

    def gflops(self, part: str) -> float | None:
        """10^9 operations a second; None if the part did not run."""
        seconds = self.seconds.get(part)
        return self.operations[part] / seconds / 1e9 if seconds else None


def hessian_operations(tokens: int, columns: int) -> int:
    """Half of X^T X, a Cholesky factorization and the inverse of a triangle."""
    return tokens * columns * (columns + 1) + 2 * columns**3 // 3


def update_operations(rows: int, columns: int, method: Method, corrected: bool) -> int:
    """GPTQ's updates (a triangle), the drift's correction (two), descent (a gradient for each
    sweep)."""
    products = 1 + 2 * corrected + 2 * method.descent
    return products * rows * columns * columns


def matmul_gflops(device: torch.device = HOST) -> float:
    """The best of a few float32 matrix products; a CPU's with as many threads as PyTorch has."""
    size = _PEAK_SIZE if device == HOST else _GPU_PEAK_SIZE
    x, y = torch.randn(2, size, size, device=device)
    best = float("inf")
    for _ in range(_PEAK_ROUNDS):
        _wait_for(device)
        started = time.perf_counter()
        torch.mm(x, y)
        _wait_for(device)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best / 1e9


def _wait_for(device: torch.device) -> None:
    """Waits for a GPU, which works asynchronously."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
