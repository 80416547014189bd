"""llama.cpp's importance matrix: for each matrix, the sums of squares of its inputs over a text.

Today's files are GGUF: `NAME.in_sum2` (matrices, columns) and `NAME.counts`, how many tokens each
of the matrices has seen; several are the experts of one tensor. Older ones hold the number of
entries, then of each the length of its name, the name, a count, how many numbers, and these: means
times that count. Behind them may be the number of chunks and the name of the text. All numbers are
little-endian, of 32 bits. Importing this module is fast.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from exporter.catalogue.file_start import GGUF_MAGIC
from exporter.catalogue.gguf_file import GgufFile
from exporter.catalogue.mapped_file import MappedFile
from exporter.errors import ExportError

_SUMS, _COUNTS = ".in_sum2", ".counts"
_CHUNKS = "imatrix.chunk_count"
_LEAST_ENTRY = 12  # bytes


@dataclass(frozen=True)
class InputSquares:
    """Of one tensor.

    Attributes:
        sums: float32 (numbers,): all columns of the first matrix, then of the next.
        counts: float32 (matrices,), or (1,) for all of them.
    """

    sums: NDArray[np.float32]
    counts: NDArray[np.float32]

    def means(self, columns: int) -> NDArray[np.float64] | None:
        """Mean squares: float64 (matrices, columns), not finite where nothing was counted; None:
        the tensor has other columns."""
        if columns == 0 or len(self.sums) % columns:
            return None
        sums = self.sums.astype(np.float64).reshape(-1, columns)
        if len(self.counts) not in (1, len(sums)):
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            return sums / self.counts.astype(np.float64)[:, None]


@dataclass(frozen=True)
class Imatrix:
    """
    Attributes:
        path: of the file.
        tensors: by the names that they have in GGUF files of models.
        chunks: of the text, how many it was made from; None: not told.
    """

    path: Path
    tensors: dict[str, InputSquares]
    chunks: int | None


def read_imatrix(path: Path) -> Imatrix:
    """Reads a file of either format.

    Raises:
        ExportError: it is absent, damaged, or something else.
    """
    old = _OldFile(path)
    made = _read_gguf(path) if old.is_gguf else old.read()
    for name, squares in made.tensors.items():
        for numbers in (squares.sums, squares.counts):
            if not np.isfinite(numbers).all() or (numbers < 0).any():
                raise _damaged(path, f"{name} has numbers that are not sums of squares")
    return made


def _read_gguf(path: Path) -> Imatrix:
    file = GgufFile(path)
    type = file.metadata.get("general.type", "model")  # which older ones do not tell
    if type != "imatrix":
        raise ExportError(
            f"{path} is a GGUF file of type {type!r}, no importance matrix; name the file that "
            "llama-imatrix wrote."
        )
    tensors = {}
    for name in file.tensors:
        if not name.endswith(_SUMS):
            continue
        tensor = name.removesuffix(_SUMS)
        parts = [name, tensor + _COUNTS]
        held = [file.tensors.get(part) for part in parts]
        if any(one is None or one.type is not GGMLQuantizationType.F32 for one in held):
            raise _damaged(path, f"{tensor} lacks sums or counts in float32")
        tensors[tensor] = InputSquares(*(np.frombuffer(file.stored(part), "<f4") for part in parts))
    if not tensors:
        raise _damaged(path, "it holds no sums")
    return Imatrix(path, tensors, _number(path, file.metadata.get(_CHUNKS)))


def _number(path: Path, chunks: Any) -> int | None:
    if chunks is not None and type(chunks) is not int:
        raise _damaged(path, f"{_CHUNKS} is {chunks!r}")
    return chunks


class _OldFile(MappedFile):
    """A file of the older format."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._at = 0

    @property
    def is_gguf(self) -> bool:
        return self._map[: len(GGUF_MAGIC)] == GGUF_MAGIC

    def read(self) -> Imatrix:
        count = self._int()
        if not 1 <= count <= len(self._map) // _LEAST_ENTRY:
            raise ExportError(
                f"{self.path} is no importance matrix: it begins with "
                f"{self._map[:4]!r}; name the file that llama-imatrix wrote."
            )
        tensors: dict[str, InputSquares] = {}
        for _ in range(count):
            name = self._take(self._int()).decode("utf-8", "replace")
            calls, length = self._int(), self._int()
            if name in tensors or calls < 0 or length < 1:
                raise _damaged(self.path, f"{name!r} has {calls} calls and {length} numbers")
            sums = np.frombuffer(self._take(4 * length), "<f4")
            tensors[name] = InputSquares(sums, np.array([calls], np.float32))
        chunks = None if self._at == len(self._map) else self._int()
        if chunks is not None and self._at < len(self._map):
            self._take(self._int())  # what the text is called
        return Imatrix(self.path, tensors, chunks)

    def _int(self) -> int:
        number: int = struct.unpack("<i", self._take(4))[0]
        return number

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._map) - self._at:
            raise _damaged(self.path, "it is cut short")
        self._at += size
        return self._map[self._at - size : self._at]


def _damaged(path: Path, why: str) -> ExportError:
    return ExportError(f"{path} is a damaged importance matrix ({why}); make it again.")
