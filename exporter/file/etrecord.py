"""Writes an ETRecord: the smallest that ExecuTorch's Inspector can read."""

import shutil
import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

# The weights of the program before a delegate packs them, as torch.save writes them.
WEIGHTS = "edge_dialect_exported_program/forward_state_dict"


def save_etrecord(etrecord: Any, path: Path) -> None:
    """Writes the lowered program's graph, weights and maps, compressed.

    ExecuTorch adds the captured program with a second copy of every weight, and compresses nothing,
    not even empty key/value caches. Its Inspector reads a captured program only to run the model
    again on inputs in the record; our records have none.

    Args:
        etrecord: ExecuTorch's, of a finished program; it loses its captured program.
    """
    etrecord.exported_program = None
    # A file without a name: nothing remains of it in any case.
    with tempfile.TemporaryFile(dir=path.parent) as whole:
        etrecord.save(whole)
        with ZipFile(whole) as source, ZipFile(path, "w", ZIP_DEFLATED) as target:
            for name in source.namelist():
                with (
                    source.open(name) as entry,
                    target.open(name, "w", force_zip64=True) as compressed,
                ):
                    shutil.copyfileobj(entry, compressed, 1 << 20)


def name_program(path: Path, fingerprint: int) -> None:
    """Notes in a record which `.pte` it was written with, where no reader of ExecuTorch's looks."""
    with ZipFile(path, "a") as archive:
        archive.comment = str(fingerprint).encode()
