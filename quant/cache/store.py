"""Results that are kept after a run: files on the user's disk, named by a digest of their inputs.

An entry is a safetensors file under `layers/`; its metadata describe it and hold a checksum of its
tensors. It is written under a temporary name and then renamed, so that a run that is killed leaves
complete entries or none. If the directory exceeds its limit, the least recently used are removed.
"""

import hashlib
import json
import os
import shutil
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from quant.machine.memory_size import parse_size, show_size

DEFAULT_SIZE = 20_000_000_000
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_ABOUT = "thimble"
_STALE_SECONDS = 3600.0  # an incomplete file of this age belongs to a run that was killed

Note = Callable[[str], None]  # is called with a sentence to show


@dataclass(frozen=True)
class Entry:
    """One file of the cache.

    Attributes:
        what: such as "model.layers.3 of my-model by gptq4".
        size: bytes.
        used: when it was last written or read, seconds since 1970.
        sound: whether its checksum is right.
    """

    key: str
    what: str
    size: int
    used: float
    sound: bool


def default_size() -> int:
    """Bytes: THIMBLE_CACHE_SIZE, or 20 GB.

    Raises:
        QuantError: the variable is not a valid size.
    """
    text = os.environ.get("THIMBLE_CACHE_SIZE")
    return parse_size(text, "THIMBLE_CACHE_SIZE") if text else DEFAULT_SIZE


class Cache:
    """A directory of results, shared by any number of runs at once.

    Attributes:
        refused: whether something was not stored, because the disk refused it.
    """

    def __init__(
        self,
        directory: Path,
        limit: int = DEFAULT_SIZE,
        note: Note | None = None,
        leaves_free: int = 0,
    ) -> None:
        """limit: bytes; note: is called once, if the disk refuses more; leaves_free: bytes of the
        disk that must stay free for other files."""
        self.directory = directory
        self.limit = limit
        self._note = note
        self._leaves_free = leaves_free
        self.refused = False

    def load(self, key: str) -> dict[str, Tensor] | None:
        """The tensors stored under a key; None if there are none, or if they are damaged."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        tensors = _decoded(data)
        if tensors is None:
            self.say(f"A cached result is damaged and is computed again: {path}")
            return None
        try:
            os.utime(path)  # eviction is by the time of last use
        except OSError:
            pass  # a directory that is read-only
        return tensors

    def store(self, key: str, tensors: Mapping[str, Tensor], what: str) -> None:
        """Writes an entry. If the disk refuses it, this is reported once, and nothing more is
        stored."""
        if self.refused:
            return
        data = _encoded(tensors, what)
        if len(data) > self.limit:
            self._refuse(f"{what} alone is larger than the cache's limit of {self.limit:,} bytes")
            return
        path = self._path(key)
        temporary = path.with_name(f".{key}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._make_room(len(data))
            free = shutil.disk_usage(self.directory).free
            if self._leaves_free and free < self._leaves_free + len(data):
                self._refuse(
                    f"{self.directory} has {show_size(free)} free, and the file that is being made "
                    f"needs {show_size(self._leaves_free)} of that disk"
                )
                return
            try:
                with open(temporary, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            _sync_directory(path.parent)
        except OSError as error:
            self._refuse(f"{self.directory} cannot store more ({error.strerror})")

    def entries(self) -> list[Entry]:
        """All entries, each read and checked; least recently used first."""
        entries = []
        for path, status in self._files():
            try:
                data = path.read_bytes()
            except OSError:
                continue
            sound = _decoded(data) is not None
            what = (_metadata(data) or {}).get("what", "")
            entries.append(Entry(path.stem, what, status.st_size, status.st_mtime, sound))
        return entries

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(status.st_size for _, status in self._files())

    def prune(self, limit: int) -> int:
        """Removes the least recently used entries until at most `limit` bytes are left; returns how
        many bytes were removed."""
        files = self._files()
        left = total = sum(status.st_size for _, status in files)
        for path, status in files:
            if left <= limit:
                break
            path.unlink(missing_ok=True)
            left -= status.st_size
        return total - left

    def clear(self) -> int:
        """Removes everything, including incomplete files of killed runs; returns how many bytes of
        entries were removed."""
        removed = self.size()
        for path in self._layers.glob("*"):
            path.unlink(missing_ok=True)
        return removed

    @property
    def _layers(self) -> Path:
        return self.directory / "layers"

    def _path(self, key: str) -> Path:
        return self._layers / f"{key}.safetensors"

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        """The entries' files, least recently used first."""
        files = []
        for path in self._layers.glob("*.safetensors"):
            try:
                files.append((path, path.stat()))
            except OSError:
                continue  # another run has just removed it
        return sorted(files, key=lambda item: item[1].st_mtime_ns)

    def _make_room(self, size: int) -> None:
        for path in self._layers.glob(".*.tmp"):
            try:
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()
            except OSError:
                continue
        self.prune(max(0, self.limit - size))

    def _refuse(self, why: str) -> None:
        self.refused = True
        self.say(
            f"Nothing more is cached: {why}. The run continues; after an interruption, layers that "
            "are not cached are computed again."
        )

    def say(self, text: str) -> None:
        """Passes a note on."""
        if self._note is not None:
            self._note(text)


def _encoded(tensors: Mapping[str, Tensor], what: str) -> bytes:
    whole = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    about = json.dumps({"what": what, "sha256": _checksum(whole)})
    return save(whole, {_ABOUT: about})  # one field: the order of several would vary


def _decoded(data: bytes) -> dict[str, Tensor] | None:
    """The tensors of an entry, or None if a bit of them has changed."""
    metadata = _metadata(data)
    if metadata is None:
        return None
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, KeyError, RuntimeError):
        return None
    return tensors if metadata.get("sha256") == _checksum(tensors) else None


def _metadata(data: bytes) -> dict[str, str] | None:
    """The metadata in the header of a safetensors file; None if the header is not valid."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
        metadata = json.loads(header[_METADATA][_ABOUT])
    except (struct.error, ValueError, OverflowError, MemoryError, KeyError, TypeError):
        return None
    return metadata if isinstance(metadata, dict) else None


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(bytes_of(tensor))
    return digest.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a tensor, not copied if it is contiguous."""
    flat = tensor.detach().contiguous().flatten()
    return flat.view(torch.uint8).numpy().data


def _sync_directory(path: Path) -> None:
    """Makes a rename survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
