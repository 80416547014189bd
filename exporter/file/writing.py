"""Writes a lowered program and its ETRecord, and completes them."""

from pathlib import Path
from typing import TYPE_CHECKING

from exporter.file.etrecord import name_program, save_etrecord
from exporter.file.pte import seal
from exporter.file.report import Report

if TYPE_CHECKING:
    from delegates import Lowered


def write_program(lowered: "Lowered", temporary: Path, etrecord: Path | None) -> None:
    """Writes the program, and the ETRecord if there is one."""
    with open(temporary, "wb") as file:
        lowered.program.write_to_file(file)
    if lowered.etrecord is not None and etrecord is not None:
        save_etrecord(lowered.etrecord, etrecord)


def seal_files(report: Report, temporary: Path, etrecord: Path | None) -> None:
    """Stores the complete report in the file, and names the file in its ETRecord."""
    fingerprint = seal(temporary, report)
    if etrecord is not None and etrecord.exists():
        name_program(etrecord, fingerprint)
