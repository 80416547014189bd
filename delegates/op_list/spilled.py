"""Keeps packed weights on disk instead of in memory until the file is written."""

import hashlib
import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from executorch.exir._serialize._cord import FileBackedData

from delegates.spill import spill_directory

_CHUNK_BYTES = 1 << 23


def spilled(data: bytes) -> bytes | FileBackedData:
    """Returns the same bytes, on disk if requested."""
    directory = spill_directory()
    return data if directory is None else _NamelessData(data, directory)


class _NamelessData(FileBackedData):
    """Bytes in a file without a name, which disappears with the object or the process."""

    def __init__(self, data: bytes, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=directory)
        self._file.write(data)
        self._file.flush()
        self._size = len(data)

    def prefix(self, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, 0)

    def sha256(self) -> bytes:
        digest = hashlib.sha256()
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK_BYTES):
            digest.update(chunk)
        return digest.digest()

    def to_bytes(self) -> bytes:
        self._file.seek(0)
        return self._file.read()

    def write_to_file(self, outfile: io.BufferedIOBase) -> None:
        self._file.seek(0)
        shutil.copyfileobj(self._file, outfile, _CHUNK_BYTES)

    def close(self) -> None:
        self._file.close()
