"""Work on some rows of a weight at a time, by a thread for each of the CPU's cores.

Short operations gain nothing from PyTorch's own threads, which wait for each other after each.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from quant.machine.device import HOST

MOST_THREADS = 4  # each has its own temporary tensors

Piece = TypeVar("Piece")


def for_each(work: Callable[[Piece], None], pieces: Iterable[Piece], device: torch.device) -> None:
    """Calls `work` with each piece: in a few threads, where one of PyTorch's is left to each, or,
    for a GPU, one after the other. The first error is raised."""
    if device != HOST:
        for piece in pieces:
            work(piece)
        return
    threads = min(torch.get_num_threads(), MOST_THREADS)
    with ThreadPoolExecutor(threads, initializer=_begin_thread) as pool:
        for _ in pool.map(work, pieces):
            pass


def _begin_thread() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)


@contextmanager
def one_thread() -> Iterator[None]:
    """For many short operations: two threads would spend more time waiting than working."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
