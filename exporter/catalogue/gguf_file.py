"""One GGUF file, mapped into memory: its metadata, and its tensors as rows of stored bytes.

The format: a header with counts, pairs of name and value, then for each tensor its name, sizes
(the innermost first), type and offset; behind them, aligned, the tensors' bytes
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The `gguf` package knows the types;
its own reader makes an object of every string and trusts every count, so files are read here.
PyTorch is imported when a tensor is: a damaged file is refused before.
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gguf import GGML_QUANT_SIZES, GGUF_DEFAULT_ALIGNMENT, GGMLQuantizationType, GGUFValueType

from exporter.catalogue.file_start import check_gguf_start
from exporter.catalogue.mapped_file import MappedFile, fits_a_tensor
from exporter.errors import ExportError

if TYPE_CHECKING:
    from torch import Tensor

_COUNTS = 8  # where they begin, behind the magic bytes and the version
_MOST_SIZES = 4  # of one tensor
_ALIGNMENT = "general.alignment"
_LEAST_TENSOR_ENTRY = 24  # bytes of a header's entry: lengths, type and offset
_LENGTH = struct.Struct("<Q")  # of a string
_SCALARS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}


@dataclass(frozen=True)
class GgufTensor:
    """Where one tensor lies, and of what type it is.

    Attributes:
        shape: the outermost size first, as PyTorch has it.
        offset: from the start of the file, in bytes.
        size: in bytes.
    """

    shape: tuple[int, ...]
    type: GGMLQuantizationType
    offset: int
    size: int


class GgufFile(MappedFile):
    """The metadata and the tensors of one file.

    Attributes:
        metadata: values by name: numbers, booleans, strings (bytes where they are not UTF-8) and
            lists of these.
        tensors: what the header says of each tensor, by the name it has in the file.

    Raises:
        ExportError: on opening, when the file is absent, cut short or damaged, or no GGUF file of
            a version that is read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._at = 0
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GgufTensor] = {}
        self._read_header()
        self.release()

    def stored(self, name: str) -> bytes:
        """A copy of a tensor's stored bytes."""
        tensor = self.tensors[name]
        return self._map[tensor.offset : tensor.offset + tensor.size]

    def rows(self, name: str) -> "Tensor":
        """A tensor's stored bytes, a view of the mapped file: uint8 (all sizes but the innermost
        multiplied, bytes of a row)."""
        import torch

        tensor = self.tensors[name]
        rows = math.prod(tensor.shape[:-1])
        if tensor.size == 0:
            return torch.empty(rows, 0, dtype=torch.uint8)
        data = torch.frombuffer(
            self._map, dtype=torch.uint8, count=tensor.size, offset=tensor.offset
        )
        return data.view(rows, -1)

    def _read_header(self) -> None:
        check_gguf_start(self.path)
        self._at = _COUNTS
        tensors, pairs = self._scalar("Q"), self._scalar("Q")
        for _ in range(pairs):
            name = self._name("a metadata name")
            if name in self.metadata:
                raise self._damaged(f"its metadata has {name} twice")
            self.metadata[name] = self._value(name)
        entries = [self._tensor_entry() for _ in range(self._counted(tensors))]
        alignment = self.metadata.get(_ALIGNMENT, GGUF_DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise self._damaged(f"{_ALIGNMENT} is {alignment!r}, not a power of two")
        start = self._at + -self._at % alignment
        for name, shape, kind, offset in entries:
            self._add(name, shape, kind, offset, start, alignment)
        self._check_places()

    def _counted(self, tensors: int) -> int:
        if tensors > (len(self._map) - self._at) // _LEAST_TENSOR_ENTRY:
            raise self._truncated()
        return tensors

    def _tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._name("a tensor's name")
        count = self._scalar("I")
        if count > _MOST_SIZES:
            raise self._damaged(f"{name} has {count} dimensions, more than {_MOST_SIZES}")
        sizes = self._unpack(f"{count}Q")
        return name, tuple(reversed(sizes)), self._scalar("I"), self._scalar("Q")

    def _add(
        self, name: str, shape: tuple[int, ...], kind: int, offset: int, start: int, alignment: int
    ) -> None:
        if name in self.tensors:
            raise self._damaged(f"it holds {name} twice")
        try:
            type = GGMLQuantizationType(kind)
        except ValueError:
            raise ExportError(
                f"{self.path} stores {name} as type {kind}, which is not known; update the gguf "
                "package, or convert the model to a usual type such as Q8_0."
            ) from None
        elements, (block, block_bytes) = math.prod(shape), GGML_QUANT_SIZES[type]
        if not shape or shape[-1] % block or not fits_a_tensor(shape):
            raise self._damaged(f"{name} of type {type.name} has the shape {shape}")
        if offset % alignment:
            raise self._damaged(f"{name} lies at {offset}, no multiple of {alignment}")
        size = elements // block * block_bytes
        self.tensors[name] = GgufTensor(shape, type, start + offset, size)

    def _check_places(self) -> None:
        end, last = 0, ""
        for name, tensor in sorted(self.tensors.items(), key=lambda item: item[1].offset):
            if tensor.offset < end:
                raise self._damaged(f"{name} overlaps {last}")
            end, last = tensor.offset + tensor.size, name
            if end > len(self._map):
                raise ExportError(
                    f"{self.path} is cut short: it holds {len(self._map):,} bytes and {name} ends "
                    f"at {end:,}; download it again."
                )

    def _value(self, name: str) -> Any:
        type = self._value_type(name)
        if type is GGUFValueType.STRING:
            return self._string()
        if type is not GGUFValueType.ARRAY:
            return self._scalar(_SCALARS[type])
        inner, length = self._value_type(name), self._scalar("Q")
        if inner is GGUFValueType.ARRAY:
            raise self._damaged(f"{name} is a list of lists, which no GGUF file has")
        if inner is GGUFValueType.STRING:
            return self._strings(length)
        return list(self._unpack(f"{length}{_SCALARS[inner]}"))

    def _value_type(self, name: str) -> GGUFValueType:
        number = self._scalar("I")
        try:
            return GGUFValueType(number)
        except ValueError:
            raise self._damaged(f"{name} has the unknown type {number}") from None

    def _name(self, what: str) -> str:
        name = self._string()
        if not isinstance(name, str):
            raise self._damaged(f"{what} is {name!r}, which is not UTF-8")
        return name

    def _string(self) -> str | bytes:
        return self._strings(1)[0]

    def _strings(self, count: int) -> list[str | bytes]:
        """As many calls of `_string`, in less time: a vocabulary has 100,000s."""
        strings: list[str | bytes] = []
        data, at = self._map, self._at
        for _ in range(count):
            start = at + _LENGTH.size
            if start > len(data):
                raise self._truncated()
            at = start + _LENGTH.unpack_from(data, start - _LENGTH.size)[0]
            if at > len(data):
                raise self._truncated()
            strings.append(_text(data[start:at]))
        self._at = at
        return strings

    def _scalar(self, code: str) -> Any:
        return self._unpack(code)[0]

    def _unpack(self, codes: str) -> tuple[Any, ...]:
        try:
            size = struct.calcsize(f"<{codes}")
        except struct.error:  # more than any file holds
            raise self._truncated() from None
        return struct.unpack_from(f"<{codes}", self._map, self._advance(size))

    def _advance(self, size: int) -> int:
        """Passes over `size` bytes and returns where they begin."""
        at = self._at
        if size > len(self._map) - at:
            raise self._truncated()
        self._at = at + size
        return at

    def _truncated(self) -> ExportError:
        return ExportError(
            f"{self.path} is cut short or damaged: it holds {len(self._map):,} bytes and its "
            "header asks for more; download it again."
        )

    def _damaged(self, why: str) -> ExportError:
        return ExportError(f"{self.path} is damaged ({why}); download it again.")


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data
