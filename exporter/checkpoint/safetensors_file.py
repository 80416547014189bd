"""One safetensors file, mapped into memory: its tensors are views of the file."""

import math

import torch
from torch import Tensor

from exporter.catalogue.safetensors_header import FOURS, SafetensorsHeader

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    FOURS: torch.float4_e2m1fn_x2,
}


class SafetensorsFile(SafetensorsHeader):
    """The tensors of one file by name.

    Raises:
        ExportError: on opening, if the file is missing, truncated or not a safetensors file.
    """

    def dtype(self, name: str) -> torch.dtype:
        """Returns the type in which a tensor is stored."""
        return _DTYPES[self._entries[name].dtype]

    def tensor(self, name: str) -> Tensor:
        """Returns a view of the mapped file; nothing is copied."""
        entry = self._entries[name]
        dtype, count = _DTYPES[entry.dtype], math.prod(entry.shape)
        if count == 0:
            return torch.empty(entry.shape, dtype=dtype)
        flat = torch.frombuffer(self._map, dtype=dtype, count=count, offset=entry.offset)
        return flat.view(entry.shape)
