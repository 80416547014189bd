"""One file of `torch.save`, mapped into memory: only tensors are read, no pickled code runs."""

import ctypes
import mmap
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.errors import ExportError
from exporter.json_object import LFS_POINTER, lfs_pointer

_LIBC = ctypes.CDLL(None)
_OLD_FORMAT = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the pickled magic number


class PickledFile:
    """The tensors of one file by name.

    Args:
        part: what holds them in the file; "": they are all that is in it.

    Attributes:
        beside: what stands beside the part.

    Raises:
        ExportError: on opening, if the file is damaged, or holds more than tensors.
    """

    def __init__(self, path: Path, part: str = "") -> None:
        self.path = path
        loaded = _load(path)
        within = loaded.get(part) if part and isinstance(loaded, dict) else loaded
        self._tensors = _checked(path, within)
        self.beside = {name: loaded[name] for name in loaded if name != part} if part else {}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor, by the name it has in the file."""
        return {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def dtype(self, name: str) -> torch.dtype:
        """Returns the type in which a tensor is stored."""
        return self._tensors[name].dtype

    def tensor(self, name: str) -> Tensor:
        """Returns a view of the mapped file; nothing is copied."""
        return self._tensors[name]

    def release(self) -> None:
        """Releases the pages; reading a view afterwards reads the file again."""
        for tensor in self._tensors.values():
            _drop_pages(tensor)


def _load(path: Path) -> Any:
    try:
        if not zipfile.is_zipfile(path):
            raise ExportError(_why_no_archive(path))
        return torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except pickle.UnpicklingError:
        raise ExportError(
            f"{path} holds more than tensors, such as code that would run on loading, so it is not "
            "read: use the checkpoint that its author published."
        ) from None
    except ExportError:
        raise
    except Exception as error:  # a damaged file ends torch.load in many ways
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ExportError(
            f"{path} cannot be read as a PyTorch checkpoint ({reason}); download it again."
        ) from None


def _checked(path: Path, tensors: Any) -> dict[str, Tensor]:
    values = list(tensors.values()) if isinstance(tensors, dict) else [None]
    if not all(isinstance(value, Tensor) and value.layout == torch.strided for value in values):
        raise ExportError(
            f"{path} is not a checkpoint of a model: it does not hold a table of tensors."
        )
    others = {type(value).__name__ for value in values} - {Tensor.__name__, "Parameter"}
    if others:  # such as those of torchao, which load where it is imported
        raise ExportError(
            f"{path} holds tensors of the type {min(others)}, which are not read: save the weights "
            "as floats."
        )
    return tensors


def _why_no_archive(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(LFS_POINTER):
        return lfs_pointer(path)
    if head.startswith(_OLD_FORMAT):
        return (
            f"{path} is in the format of PyTorch before 1.6, which cannot be mapped; load it with "
            "torch and save it again with torch.save."
        )
    return f"{path} is not a PyTorch checkpoint, or its end is missing; download it again."


def _drop_pages(tensor: Tensor) -> None:
    """Releases the complete pages of a tensor in a mapped file, which torch cannot do."""
    storage = tensor.untyped_storage()
    begin = -(-storage.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (storage.data_ptr() + storage.nbytes()) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > begin:
        _LIBC.madvise(
            ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), ctypes.c_int(mmap.MADV_DONTNEED)
        )
