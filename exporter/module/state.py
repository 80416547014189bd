"""Runs a module without changing its state for what follows."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def state_kept(module: nn.Module) -> Iterator[None]:
    """Gives the module's buffers their values back at the end of the block."""
    kept = [
        (part, name, None if buffer is None else (buffer, buffer.clone()))
        for part in module.modules()
        for name, buffer in part._buffers.items()
    ]
    try:
        yield
    finally:
        for part, name, known in kept:
            if known is not None:
                buffer, value = known
                part._buffers[name] = buffer.copy_(value)
