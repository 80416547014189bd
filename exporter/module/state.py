"""Runs a module without changing its state for what follows."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def state_kept(module: nn.Module, only: Collection[str] | None = None) -> Iterator[None]:
    """Gives the module's buffers their values back at the end of the block.

    Args:
        only: the names of those buffers; None: all.
    """
    kept = [
        (part, name, None if buffer is None else (buffer, buffer.clone()))
        for path, part in module.named_modules()
        for name, buffer in part._buffers.items()
        if only is None or (f"{path}.{name}" if path else name) in only
    ]
    try:
        yield
    finally:
        for part, name, known in kept:
            if known is not None:
                buffer, value = known
                part._buffers[name] = buffer.copy_(value)
