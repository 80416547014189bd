"""Temporary storage of large tensors: in memory, or in files that vanish with the process.

This is the CPU's memory: a tensor of a GPU is returned to that GPU.

The files have no name (they are unlinked as soon as they are open), so that nothing is left of
them however the process ends. What is read back is bit-identical.
"""

import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import torch
from torch import Tensor, nn

from quant.errors import QuantError
from quant.machine.freed_memory import return_freed_memory
from quant.modules import QuantizedEmbedding, QuantizedLinear

_MOST_FILES = 64  # of one module, before its tensors share some
_SHARED_BYTES = 1 << 26  # of a file that several tensors share
_ALIGNMENT = 64  # of a tensor in it


class Batches:
    """Tensors in order, each of which may be replaced by one of its shape."""

    def __init__(self, directory: Path | None = None) -> None:
        """directory: where their file is; None keeps them in memory."""
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._tensors: list[Tensor] = []
        self._device = torch.device("cpu")
        self._places: list[tuple[int, torch.Size, torch.dtype]] = []  # offset, shape
        self._end = 0

    def __len__(self) -> int:
        return len(self._tensors) if self._directory is None else len(self._places)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Tensor:
        if self._file is None:
            return self._tensors[index].to(self._device)
        offset, shape, dtype = self._places[index]
        tensor = torch.empty(shape, dtype=dtype)
        self._file.seek(offset)
        if self._file.readinto(tensor.numpy()) != tensor.nbytes:  # type: ignore[attr-defined]
            raise QuantError("a temporary file of activations is truncated; start again.")
        return tensor.to(self._device)

    def __setitem__(self, index: int, tensor: Tensor) -> None:
        if self._directory is None:
            self._tensors[index] = tensor.cpu()
        else:
            self._write(self._places[index][0], tensor)

    def append(self, tensor: Tensor) -> None:
        """Takes a tensor of the device of those before it."""
        self._device = tensor.device
        if self._directory is None:
            self._tensors.append(tensor.cpu())
            return
        if self._file is None:
            self._file = open_nameless(self._directory)
        self._write(self._end, tensor)
        self._places.append((self._end, tensor.shape, tensor.dtype))
        self._end += tensor.nbytes

    def _write(self, offset: int, tensor: Tensor) -> None:
        assert self._file is not None
        try:
            self._file.seek(offset)
            self._file.write(tensor.contiguous().cpu().numpy().data)
            self._file.flush()
        except OSError as error:
            raise _no_room(self._directory, error) from None


class Spill:
    """A choice between memory and files."""

    def __init__(self, directory: Path | None = None) -> None:
        """directory: on the disk to use; None keeps everything in memory."""
        self.directory = directory
        self._maps: list[weakref.ref[mmap.mmap]] = []

    def keep(self, tensors: Iterable[Tensor]) -> Batches:
        """Keeps tensors as they come."""
        batches = Batches(self.directory)
        for tensor in tensors:
            batches.append(tensor)
        return batches

    def park(self, module: nn.Module) -> None:
        """Moves the quantized weights of a module to mapped files: they are resident when they are
        used, until `release`, and a file disappears with its tensors. Tensors that share their
        memory still do."""
        if self.directory is None:
            return
        owners = [(owner, name, getattr(owner, name)) for owner, name in _quantized(module)]
        tensors = {tensor.data_ptr(): tensor for _, _, tensor in owners}
        moved: dict[int, Tensor] = {}
        for some in _together(tensors):
            moved |= zip(some, self._mapped([tensors[key] for key in some]), strict=True)
        for owner, name, tensor in owners:
            setattr(owner, name, moved[tensor.data_ptr()])

    @property
    def mapped(self) -> int:
        """How many files are still mapped."""
        return sum(pages() is not None for pages in self._maps)

    def release(self) -> None:
        """Releases the memory that reading parked weights has made resident, and freed memory."""
        if self.directory is None:
            return
        for reference in self._maps:
            pages = reference()
            if pages is not None:
                pages.madvise(mmap.MADV_DONTNEED)
        return_freed_memory()

    def stack(self, pieces: Iterable[Sequence[Tensor]], rows: int) -> list[Tensor]:
        """Tensors (rows, columns) of which some rows come at a time, in the directory: no more of
        them than those is in memory, until they are read."""
        assert self.directory is not None
        files: list[IO[bytes]] = []
        last: list[Tensor] = []
        for piece in pieces:
            files = files or [open_nameless(self.directory) for _ in piece]
            last = list(piece)
            for file, tensor in zip(files, last, strict=True):
                self._append(file, tensor)
        return [
            _read(self._map(file), 0, (rows, *tensor.shape[1:]), tensor.dtype)
            for file, tensor in zip(files, last, strict=True)
        ]

    def _mapped(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The same numbers in one file, read through a private mapping."""
        assert self.directory is not None
        file = open_nameless(self.directory)
        offsets = []
        for tensor in tensors:
            offsets.append(file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR))
            self._append(file, tensor)
        pages = self._map(file)
        return [
            _read(pages, at, tensor.shape, tensor.dtype)
            for at, tensor in zip(offsets, tensors, strict=True)
        ]

    def _append(self, file: IO[bytes], tensor: Tensor) -> None:
        try:
            file.write(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
        except OSError as error:
            raise _no_room(self.directory, error) from None

    def _map(self, file: IO[bytes]) -> mmap.mmap:
        """Closes a file that is written, and maps it."""
        with file:
            try:
                file.flush()
            except OSError as error:
                raise _no_room(self.directory, error) from None
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._maps = [*(ref for ref in self._maps if ref() is not None), weakref.ref(pages)]
        return pages


def _read(pages: mmap.mmap, offset: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor in mapped pages."""
    flat = torch.frombuffer(pages, dtype=dtype, count=math.prod(shape), offset=offset)
    # Not a view: it would keep the flat tensor, and the file, after its own data is released.
    stride = torch.empty(shape, device="meta").stride()
    return flat.new_empty(0).set_(flat.untyped_storage(), 0, shape, stride)


def _together(tensors: Mapping[int, Tensor]) -> Iterator[list[int]]:
    """The tensors that share a file: those of experts, which are more than may be open files."""
    least = _SHARED_BYTES if len(tensors) > _MOST_FILES else 0
    some: list[int] = []
    size = 0
    for key, tensor in tensors.items():
        some.append(key)
        size += tensor.nbytes
        if size >= least:
            yield some
            some, size = [], 0
    if some:
        yield some


IN_MEMORY = Spill()


def open_nameless(directory: Path) -> IO[bytes]:
    """Opens a file without a name in a directory.

    Raises:
        QuantError: the directory cannot hold it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=directory)
    except OSError as error:
        raise _no_room(directory, error) from None


def _quantized(module: nn.Module) -> Iterator[tuple[object, str]]:
    """The owners of the tensors of quantized weights, and their names there."""
    for child in module.modules():
        if isinstance(child, QuantizedEmbedding | QuantizedLinear) and not child.values.is_meta:
            yield from ((child, name) for name in ("values", "scales"))


def _no_room(directory: Path | None, error: OSError) -> QuantError:
    return QuantError(
        f"{directory} cannot store more of what does not fit in memory ({error.strerror}); free "
        "some space there, choose another --cache, or allow more with --max-memory."
    )
