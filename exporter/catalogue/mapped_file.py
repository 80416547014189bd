"""A file of weights in memory: tensors are views of it, and nothing is copied. Importing this
module is fast."""

import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.catalogue.file_start import read_start, readable

if TYPE_CHECKING:
    import torch

_MOST_SIZES = 64  # of a tensor of PyTorch's
_MOST_NUMBERS = 2**60


def fits_a_tensor(shape: Sequence[int]) -> bool:
    """Whether PyTorch has tensors of these sizes, also where one of them is 0."""
    return len(shape) <= _MOST_SIZES and (
        all(size <= _MOST_NUMBERS for size in shape)
        and math.prod(size or 1 for size in shape) <= _MOST_NUMBERS
    )


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies: `offset` bytes from the start of the file."""

    dtype: "torch.dtype"
    shape: tuple[int, ...]
    offset: int


class MappedFile:
    """
    Raises:
        ExportError: on opening, if the file is missing, empty, only a pointer of Git LFS, or
            cannot be mapped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        read_start(path)
        with readable(path) as file:
            # A private mapping: a writable buffer for torch, and the file is never written.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def release(self) -> None:
        """Gives the pages back to the system; a view that is read again reads the file again."""
        self._map.madvise(mmap.MADV_DONTNEED)
