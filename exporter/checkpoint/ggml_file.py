"""whisper.cpp's GGML files, mapped into memory: their tensors are views of the file.

The format: a magic number; eleven sizes of the model; the mel filters; the tokens, by their ranks;
then each tensor: the number of its dimensions, the length of its name, its type, its dimensions,
the last one first, its name and its bytes. Numbers are little endian, of 32 bits.
"""

import math
import struct
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exporter.catalogue.mapped_file import MappedFile, StoredTensor
from exporter.errors import ExportError

MAGIC = b"lmgg"
SIZES = (
    *("n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer"),
    *("n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels"),
)
_TYPES = {0: torch.float32, 1: torch.float16}
_MOST_DIMENSIONS = 4


class GgmlFile(MappedFile):
    """The tensors of one file by name.

    Attributes:
        sizes: of the model, by OpenAI's names.
        filters: what each feature takes of the energy of each frequency: float32 (n_mels, n).
        tokens: the bytes of each, in order; those with a name of their own are not stored.

    Raises:
        ExportError: on opening, if the file is missing, cut off, of another kind or quantized.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._at = len(MAGIC)
        if self._map[: self._at] != MAGIC:
            raise ExportError(f"{path} is not a GGML file of whisper.cpp's; download it again.")
        try:
            self.sizes = dict(zip(SIZES, self._numbers(len(SIZES)), strict=True))
            self._numbers(1)  # how most tensors are stored, which each says as well
            self.filters = self._filters()
            (count,) = self._numbers(1)
            self.tokens = [self._bytes(*self._numbers(1)) for _ in range(count)]
            self._entries = {}
            while self._at < len(self._map):
                name, stored = self._entry()
                self._entries[name] = stored
        except (struct.error, UnicodeDecodeError):
            raise self._damaged() from None

    def _damaged(self) -> ExportError:
        return ExportError(f"{self.path} is cut off or damaged; download it again.")

    def _numbers(self, count: int) -> tuple[int, ...]:
        form = f"<{count}i"
        numbers = struct.unpack_from(form, self._map, self._at)
        self._at += struct.calcsize(form)
        return numbers

    def _bytes(self, size: int) -> bytes:
        first, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._map):
            raise self._damaged()
        return self._map[first : self._at]

    def _filters(self) -> NDArray[np.float32]:
        mels, frequencies = self._numbers(2)
        if mels < 1 or frequencies < 1:
            raise self._damaged()
        data = self._bytes(4 * mels * frequencies)
        return np.frombuffer(data, "<f4").reshape(mels, frequencies)

    def _entry(self) -> tuple[str, StoredTensor]:
        dimensions, length, kind = self._numbers(3)
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise self._damaged()
        shape = self._numbers(dimensions)[::-1]
        name = self._bytes(length).decode()
        if kind not in _TYPES:
            raise ExportError(
                f"{self.path} stores {name} in GGML's type {kind}, but only floats are read: "
                "export the file that it was quantized from, and choose --quant."
            )
        if name.endswith(".bias") and dimensions == 2:  # of a convolution, as a column
            shape = shape[:1]
        dtype, offset = _TYPES[kind], self._at
        self._at += math.prod(shape) * dtype.itemsize
        if min(shape) < 1 or self._at > len(self._map):
            raise self._damaged()
        return name, StoredTensor(dtype, shape, offset)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: entry.shape for name, entry in self._entries.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self._entries[name].dtype

    def tensor(self, name: str) -> Tensor:
        """Returns a view of the mapped file, or a copy where it begins at an odd place."""
        entry = self._entries[name]
        count = math.prod(entry.shape)
        if entry.offset % entry.dtype.itemsize == 0:
            flat = torch.frombuffer(self._map, dtype=entry.dtype, count=count, offset=entry.offset)
        else:
            size = count * entry.dtype.itemsize
            data = bytearray(self._map[entry.offset : entry.offset + size])
            flat = torch.frombuffer(data, dtype=entry.dtype)
        return flat.reshape(entry.shape)
