"""Checks that need no large library: a wrong option is reported before PyTorch is imported.

The export makes each of these checks again where it uses the value.
"""

from pathlib import Path

from delegates import check_delegate
from exporter.catalogue.names import check_checkpoint, check_model
from exporter.file.replacing import check_outputs
from quant.machine.memory_size import parse_size


def check_source(model: str | None, checkpoint: str | None) -> None:
    """Raises ExportError if there can be no such model or checkpoint."""
    if model is not None:
        check_model(model)
    if checkpoint is not None:
        check_checkpoint(checkpoint)


def check_file(
    delegate: str, out: Path | None, etrecord: Path | None, max_size: str | None
) -> None:
    """Raises DelegateError, ExportError or QuantError if an option of the file is not valid."""
    check_delegate(delegate)
    check_outputs(out, etrecord)
    if max_size is not None:
        parse_size(max_size, "--max-size")
