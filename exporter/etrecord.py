"""Writes an ETRecord as small as ExecuTorch's Inspector can still read it."""

import shutil
import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

# The weights of the program before any delegate packed them, as torch.save writes them.
WEIGHTS = "edge_dialect_exported_program/forward_state_dict"


def save_etrecord(etrecord: Any, path: Path) -> None:
    """Writes the lowered program's graph, its weights and its maps, all compressed.

    ExecuTorch adds the captured program with a second copy of every weight, and compresses
    nothing, not even empty key/value caches. Its Inspector reads a captured program only where it
    runs a model again on inputs that a record holds; ours hold none.

    Args:
        etrecord: ExecuTorch's, of a finished program; it loses its captured program.
    """
    etrecord.exported_program = None
    # A file without a name: nothing is left behind, however this ends.
    with tempfile.TemporaryFile(dir=path.parent) as whole:
        etrecord.save(whole)
        with ZipFile(whole) as source, ZipFile(path, "w", ZIP_DEFLATED) as target:
            for name in source.namelist():
                with (
                    source.open(name) as entry,
                    target.open(name, "w", force_zip64=True) as compressed,
                ):
                    shutil.copyfileobj(entry, compressed, 1 << 20)


def weights_crc32(path: Path) -> str | None:
    """CRC-32 of the weights that a record holds, in hexadecimal digits, as the zip file lists it;
    None where it holds none."""
    with ZipFile(path) as archive:
        if WEIGHTS not in archive.namelist():
            return None
        return f"{archive.getinfo(WEIGHTS).CRC:08x}"


def holds_weights(path: Path, crc32: str) -> bool:
    """Whether one of the programs in a record has the weights of that CRC-32: a record with two
    programs, as ExecuTorch writes it, may have been known by the other's."""
    with ZipFile(path) as archive:
        entries = [e for e in archive.infolist() if e.filename.endswith("_state_dict")]
    return any(f"{entry.CRC:08x}" == crc32 for entry in entries)
