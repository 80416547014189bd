"""What tells an ETRecord from one of the same graph with other weights."""

from pathlib import Path
from zipfile import ZipFile

WEIGHTS = "exported_program_state_dict"  # of the captured program, as torch.save writes them


def weights_crc32(path: Path) -> str | None:
    """CRC-32 of the weights that a record holds, in hexadecimal digits, as the zip file lists it;
    None where it holds none."""
    with ZipFile(path) as archive:
        if WEIGHTS not in archive.namelist():
            return None
        return f"{archive.getinfo(WEIGHTS).CRC:08x}"
