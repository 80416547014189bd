"""Reads the JSON files of a model."""

import json
from pathlib import Path
from typing import Any

from exporter.errors import ExportError

LFS_POINTER = b"version https://git-lfs"


def read_object(path: Path, failure: type[ExportError] = ExportError) -> dict[str, Any]:
    """Returns the JSON object of a file.

    Args:
        failure: the type of error to raise.

    Raises:
        FileNotFoundError: there is no such file.
        ExportError: it cannot be read, is a Git LFS pointer, or holds something else.
    """
    data = b""
    try:
        data = path.read_bytes()
        fields = json.loads(data.decode("utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        if data.startswith(LFS_POINTER):
            raise failure(lfs_pointer(path)) from None
        raise failure(f"{path} cannot be read as JSON ({error}); download it again.") from None
    if not isinstance(fields, dict):
        raise failure(f"{path} is not a JSON object; download it again.")
    return fields


def lfs_pointer(path: Path) -> str:
    """Returns the message for a file that Git LFS did not download."""
    return f"{path} is only a Git LFS pointer; run `git lfs pull` in {path.parent}."
