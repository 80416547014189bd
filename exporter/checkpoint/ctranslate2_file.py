"""CTranslate2's `model.bin`, mapped into memory: its tensors are views of the file.

The format, of version 6: its number, the model's kind and revision, then each variable: a name, a
shape, a type and its bytes. Numbers are little endian, of 32 bits; texts have their size before
them, of 16 bits, and end with a zero.
"""

import math
import struct
from pathlib import Path

import torch
from torch import Tensor

from exporter.catalogue.mapped_file import MappedFile, StoredTensor, fits_a_tensor
from exporter.errors import ExportError

_VERSION = 6
_TYPES = (*(torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16),)
_SCALE = "_scale"  # behind the name of int8 rows: what their numbers were multiplied by


class CTranslate2File(MappedFile):
    """The tensors of one file by name. Rows of int8 are float32 here.

    Attributes:
        kind: of the model, such as WhisperSpec.

    Raises:
        ExportError: on opening, if the file is missing, cut off or of another version.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._at = 0
        try:
            version = self._number("<I")
            if version != _VERSION:
                raise ExportError(
                    f"{path} has version {version} of CTranslate2's format, but only {_VERSION} is "
                    "supported; convert the model again."
                )
            self.kind = self._text()
            self._number("<I")
            self._entries = dict(self._entry() for _ in range(self._number("<I")))
        except (struct.error, UnicodeDecodeError):
            raise ExportError(f"{path} is cut off or damaged; download it again.") from None
        self._check_scales()

    def _number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._map, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def _text(self) -> str:
        size = self._number("<H")
        self._at += size
        return self._map[self._at - size : self._at].rstrip(b"\0").decode()

    def _entry(self) -> tuple[str, StoredTensor]:
        name = self._text()
        shape = tuple(self._number("<I") for _ in range(self._number("<B")))
        kind, size = self._number("<B"), self._number("<I")
        offset, self._at = self._at, self._at + size
        if kind >= len(_TYPES) or self._at > len(self._map):
            raise self._damaged(name)
        dtype = _TYPES[kind]
        fits = 0 not in shape and fits_a_tensor(shape)
        if not fits or math.prod(shape) * dtype.itemsize != size:
            raise self._damaged(name)
        return name, StoredTensor(dtype, shape, offset)

    def _check_scales(self) -> None:
        """Raises ExportError if rows of int8 have not one scale each, or one for all."""
        for name, entry in self._entries.items():
            scale = self._entries.get(name + _SCALE)
            if entry.dtype is torch.int8 and scale is not None:
                if math.prod(scale.shape) not in (1, *entry.shape[:1]):
                    raise self._damaged(name + _SCALE)

    def _damaged(self, name: str) -> ExportError:
        return ExportError(f"{self.path} is damaged at {name}; download it again.")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: entry.shape for name, entry in self._entries.items()}

    def dtype(self, name: str) -> torch.dtype:
        dtype = self._entries[name].dtype
        has_scale = dtype is torch.int8 and name + _SCALE in self._entries
        return torch.float32 if has_scale else dtype

    def tensor(self, name: str) -> Tensor:
        stored = self._stored(name)
        if stored.dtype is not torch.int8 or name + _SCALE not in self._entries:
            return stored
        scale = self._stored(name + _SCALE).float()
        return stored.float() / scale.reshape(-1, *[1] * (stored.dim() - 1))

    def _stored(self, name: str) -> Tensor:
        entry = self._entries[name]
        count = math.prod(entry.shape)
        size = count * entry.dtype.itemsize
        # A file packs its tensors without regard to their alignment, which views need.
        data = bytearray(self._map[entry.offset : entry.offset + size])
        return torch.frombuffer(data, dtype=entry.dtype).reshape(entry.shape)
