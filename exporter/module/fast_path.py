"""PyTorch's fast path of its transformers: one operator for a whole layer, which reads the weights
of its parts and runs none of them, so that no integers take part."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def no_fast_path() -> Iterator[None]:
    """Lets transformers run their parts in the block."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
