"""Checks that need no large library: a wrong option is reported before PyTorch is imported.

The export makes each of these checks again where it uses the value.
"""

from pathlib import Path

from delegates import check_delegate
from exporter.catalogue.names import check_checkpoint, check_model
from exporter.file.replacing import check_outputs
from exporter.text.file import read_text_file
from quant.errors import QuantError
from quant.machine.device_name import check_device_name
from quant.machine.memory_size import parse_size
from quant.scheme import scheme_from_text


def check_source(model: str | None, checkpoint: str | None) -> None:
    """Raises ExportError if there can be no such model or checkpoint."""
    if model is not None:
        check_model(model)
    if checkpoint is not None:
        check_checkpoint(checkpoint)


def check_quantization(
    scheme: str,
    method: str | None,
    group_size: int,
    head_bits: int | None,
    calibration: Path | None,
    calibration_tokens: int | None,
    has_budget: bool,
    max_memory: str | None,
    device: str,
) -> None:
    """Raises QuantError or ExportError if an option of the quantization is not valid."""
    chosen = scheme_from_text(scheme, method, group_size, head_bits)
    if calibration_tokens is not None and not (chosen.needs_calibration or has_budget):
        raise QuantError(
            f"--calibration-tokens {calibration_tokens} has no effect with {scheme}, which does "
            "not calibrate; leave it out, or take gptq4."
        )
    if calibration is not None:
        read_text_file(calibration)
    if max_memory is not None:
        parse_size(max_memory, "--max-memory")
    check_device_name(device)


def check_file(
    delegate: str, out: Path | None, etrecord: Path | None, max_size: str | None
) -> None:
    """Raises DelegateError, ExportError or QuantError if an option of the file is not valid."""
    check_delegate(delegate)
    check_outputs(out, etrecord)
    if max_size is not None:
        parse_size(max_size, "--max-size")
