"""Whether memory that PyTorch frees stays with the process.

glibc gives large blocks back to the system as soon as they are freed, and the next one costs a page
fault for every 4 KB: to write a new tensor of 64 MB took 59 ms where to write an old one took 8.
"""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # of mallopt(), in malloc.h
_NEVER = -1
_MOST_MAPPED = 1 << 16  # what glibc begins with
_LARGEST = 1 << 25  # bytes; both thresholds grow up to these by themselves


@contextmanager
def reusing_freed_memory(limit: int | None) -> Iterator[None]:
    """Within the block, glibc keeps what is freed and uses it again; then it gives all back.

    Args:
        limit: the most bytes that the process may take; with one, freed memory is given back as
            ever, because what is kept has gaps: the peak is up to a quarter higher.
    """
    if limit is not None or platform.libc_ver()[0] != "glibc":
        yield
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_MAX, _MOST_MAPPED)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST)
        return_freed_memory()


def return_freed_memory() -> None:
    """Makes glibc give all freed memory back to the system, of which it always keeps some."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
