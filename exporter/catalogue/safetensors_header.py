"""The header of a safetensors file, checked. Importing this module is fast.

The format: 8 bytes little-endian header length, a JSON header of {name: {dtype, shape,
data_offsets}}, then the tensors' bytes (https://huggingface.co/docs/safetensors).
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.catalogue.mapped_file import MappedFile, fits_a_tensor
from exporter.errors import ExportError

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit
FOURS = "F4"  # two numbers in a byte, along the last dimension
BYTES = {
    **{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "C64": 8, FOURS: 1},
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0"), 1),
    **{"U64": 8, "U32": 4, "U16": 2, "U8": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "BOOL": 1},
}  # of an element, by the type's name
_NO_BYTES = ("F6_E2M3", "F6_E3M2")  # numbers that no type of PyTorch holds


@dataclass(frozen=True)
class HeaderEntry:
    """Where a tensor lies: `offset` bytes from the start of the file; of FOURS the shape is that of
    its bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


class SafetensorsHeader(MappedFile):
    """
    Raises:
        ExportError: on opening, if the file is missing, truncated or not a safetensors file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._entries = self._read_header(len(self._map))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor, by the name it has in the file."""
        return {name: entry.shape for name, entry in self._entries.items()}

    def _read_header(self, size: int) -> dict[str, HeaderEntry]:
        length = int.from_bytes(self._map[:_LENGTH_BYTES], "little")
        data_start = _LENGTH_BYTES + length
        if size < _LENGTH_BYTES or not 2 <= length <= _MAX_HEADER_BYTES:
            raise self._not_safetensors(f"its header length is {length}")
        if data_start > size:
            raise self._truncated(data_start, size)
        try:
            header = json.loads(self._map[_LENGTH_BYTES:data_start])
        except (ValueError, RecursionError):
            raise self._not_safetensors("its header is not JSON") from None
        if not isinstance(header, dict):
            raise self._not_safetensors("its header is not a JSON object")
        header.pop("__metadata__", None)
        entries = {name: self._entry(name, fields, data_start) for name, fields in header.items()}
        places = sorted(
            (entry.offset, entry.offset + _byte_count(entry), name)
            for name, entry in entries.items()
        )
        end = max((end for _, end, _ in places), default=data_start)
        if end > size:
            raise self._truncated(end, size)
        place = data_start
        for begin, end, name in places:
            if begin != place:
                raise self._not_safetensors(f"{name} does not begin where the one before it ends")
            place = end
        if place != size:
            raise self._not_safetensors(f"{size - place:,} bytes at its end are of no tensor")
        return entries

    def _entry(self, name: str, fields: Any, data_start: int) -> HeaderEntry:
        try:
            begin, end = fields["data_offsets"]
            dtype, shape = fields["dtype"], tuple(fields["shape"])
            if dtype in _NO_BYTES:
                raise ExportError(
                    f"{self.path} stores {name} as {dtype}, which cannot be read; take the "
                    "original float checkpoint."
                )
            if dtype == FOURS:
                shape = (*shape[:-1], shape[-1] // 2)
            entry = HeaderEntry(dtype, shape, data_start + begin)
            sound = all(type(n) is int and n >= 0 for n in (begin, *entry.shape))
            sound = sound and fits_a_tensor(entry.shape) and end - begin == _byte_count(entry)
        except (LookupError, TypeError, ValueError, ArithmeticError):
            sound = False
        if not sound:
            raise self._not_safetensors(f"its header's entry for {name} is not valid")
        return entry

    def _truncated(self, needed: int, size: int) -> ExportError:
        return ExportError(
            f"{self.path} is truncated: it has {size:,} bytes and its header needs {needed:,}; "
            "download it again."
        )

    def _not_safetensors(self, why: str) -> ExportError:
        return ExportError(
            f"{self.path} is not a safetensors file ({why}); download it again, or save the "
            "weights as safetensors."
        )


def _byte_count(entry: HeaderEntry) -> int:
    return math.prod(entry.shape) * BYTES[entry.dtype]
