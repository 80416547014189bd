"""Keeps what a program computed in a file, until the part of the model that it belongs to is
compared: memory holds only what is being read."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Stored:
    """A value in a log: where its float32 numbers begin, in bytes, and how many there are."""

    offset: int
    count: int


class Log:
    """float32 values one after another, in a file without a name that is removed with the block."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()
        self._size = 0

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, values: memoryview | bytes) -> Stored:
        """
        Args:
            values: the bytes of float32 numbers.
        """
        self._file.seek(self._size)
        self._file.write(values)
        stored = Stored(self._size, len(values) // _FLOAT_BYTES)
        self._size += len(values)
        return stored

    def read(self, stored: Stored) -> Tensor:
        """float32 (count,)."""
        values = torch.empty(stored.count)
        self._file.seek(stored.offset)
        self._file.readinto(values.numpy().data)
        return values


@dataclass(frozen=True)
class Rows:
    """Rows (len, width) that a call of a program computed, in a log.

    Attributes:
        parts: of the log, one below the other.
        whole: numbers of a row in the log, of which these are some.
        first, width: which.
    """

    log: Log
    parts: Sequence[Stored]
    whole: int
    first: int
    width: int

    def __len__(self) -> int:
        return sum(part.count for part in self.parts) // self.whole

    def read(self) -> Tensor:
        """float32 (len, width)."""
        parts = [self.log.read(part).reshape(-1, self.whole) for part in self.parts]
        return torch.cat([part[:, self.first : self.first + self.width] for part in parts])


def has_rows(parts: Sequence[Stored], width: int) -> bool:
    """Whether values are rows of so many numbers."""
    return bool(parts) and width > 0 and all(part.count % width == 0 for part in parts)
