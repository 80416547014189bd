"""What the first bytes of a file of weights tell. Importing this module is fast."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from exporter.errors import ExportError
from exporter.json_object import LFS_POINTER, lfs_pointer

GGUF_MAGIC = b"GGUF"
_PROGRAM_MAGIC = b"ET"  # behind 4 bytes, with a version behind it
_VERSIONS = (2, 3)  # of GGUF
_VERSION = slice(4, 8)


@contextmanager
def readable(path: Path) -> Iterator[BinaryIO]:
    """Opens a file of weights, to be read in the block.

    Raises:
        ExportError: it is a pipe or a device, or the system refuses it, or what is done with it
            there.
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise ExportError(f"{path} is a pipe or a device; name a file.")
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise ExportError(
            f"{path} cannot be opened ({error.strerror}); check the path and its permissions."
        ) from None


def read_start(path: Path) -> bytes:
    """Returns the first bytes of a file.

    Raises:
        ExportError: it is missing, empty or only a pointer of Git LFS.
    """
    with readable(path) as file:
        start = file.read(len(LFS_POINTER))
    if not start:
        raise ExportError(f"{path} is empty (0 bytes); download it again.")
    if start == LFS_POINTER:
        raise ExportError(lfs_pointer(path))
    return start


def is_program(path: str) -> bool:
    """Whether a path is that of a `.pte`, which any other name may have that begins as one."""
    if path.endswith(".pte"):
        return True
    if not os.path.isfile(path):  # a pipe would be waited for
        return False
    try:
        with open(path, "rb") as file:
            return file.read(6)[4:] == _PROGRAM_MAGIC
    except OSError:  # of which the checks of a checkpoint tell
        return False


def check_gguf_start(path: Path) -> None:
    """Checks that a file begins as GGUF of a version that is read.

    Raises:
        ExportError: it does not, or `read_start` fails.
    """
    start = read_start(path)
    magic, version = start[: len(GGUF_MAGIC)], start[_VERSION]
    if magic != GGUF_MAGIC:
        raise ExportError(
            f"{path} is not a GGUF file: it begins with {magic!r}, not {GGUF_MAGIC!r}; "
            "download it again."
        )
    if len(version) < _VERSION.stop - _VERSION.start:
        return  # who reads on says what is missing
    if int.from_bytes(version, "little") in _VERSIONS:
        return
    if int.from_bytes(version, "big") in _VERSIONS:
        raise ExportError(
            f"{path} is a big-endian GGUF file; only little-endian ones are read: convert the "
            "model again without --bigendian."
        )
    raise ExportError(
        f"{path} has GGUF version {int.from_bytes(version, 'little')}; versions "
        f"{' and '.join(map(str, _VERSIONS))} are read: convert the model again."
    )
