"""Files of weights in memory: what the system refuses is a sentence."""

import errno
import os
from pathlib import Path

import pytest

from exporter.catalogue.mapped_file import MappedFile
from exporter.errors import ExportError


def test_a_file_that_cannot_be_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without mappings, or where addresses have run out."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    monkeypatch.setattr("mmap.mmap", refuse)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(ExportError, match="x.gguf cannot be opened \\(No such device\\); check"):
        MappedFile(tmp_path / "x.gguf")
