"""Checks that need no large library: a wrong option is reported before PyTorch is imported.

The export makes each of these checks again where it uses the value.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from delegates import check_delegate
from exporter.catalogue.adapters import check_adapters
from exporter.catalogue.model_config import known_directory, known_spec
from exporter.catalogue.names import check_checkpoint, check_model, preset_name
from exporter.catalogue.seeing import require_seeing
from exporter.catalogue.weight_files import check_headers, check_model_directory, check_model_file
from exporter.commands.request import Request
from exporter.errors import ExportError
from exporter.file.replacing import check_endings, check_outputs
from exporter.plan.lengths import check_lengths
from quant.budget.bounds import check_budget
from quant.machine.memory_size import parse_size


def check_source(model: str | None, checkpoint: str | None) -> None:
    """Raises ExportError if there can be no such model or checkpoint, or both are checkpoints."""
    if model is not None and checkpoint is not None and preset_name(model) is None:
        raise ExportError(
            f"{model} and --checkpoint {checkpoint} are two checkpoints: leave one of them out."
        )
    if model is not None:
        check_model(model)
    if checkpoint is not None:
        check_checkpoint(checkpoint)


def check_files(model: str | None, checkpoint: str | None, adapter: Sequence[str]) -> None:
    """Raises ExportError if a directory of the model or an adapter lacks files. It comes last: what
    an option names wrongly is reported before what is on the disk."""
    for path in _paths(model, checkpoint):
        if os.path.isdir(path):
            check_model_directory(path)
        elif os.path.exists(path):
            check_model_file(path)
    check_adapters(adapter)


def check_weights(model: str | None, checkpoint: str | None) -> None:
    """Raises ExportError if a directory's weights are damaged where their header tells. It comes
    behind `check_config`: a model that is not supported needs no sound weights."""
    for path in _paths(model, checkpoint):
        if path.is_dir():
            check_headers(path)


def _paths(model: str | None, checkpoint: str | None) -> Iterator[Path]:
    """What may be on the disk."""
    for source in (checkpoint, model):
        if source is not None and (source != model or preset_name(source) is None):
            yield Path(os.path.expanduser(source))


def check_config(
    model: str | None, checkpoint: str | None, max_context_len: int | None, max_seq_len: int | None
) -> None:
    """Raises ExportError if a model's config, where it is known, is not supported, or its context
    is shorter than the lengths."""
    spec = known_spec(model, checkpoint)
    if spec is None:
        return
    context = spec.context_limit if max_context_len is None else max_context_len
    check_lengths(spec, context, context if max_seq_len is None else max_seq_len)


def check_vision(request: Request) -> None:
    """Raises ExportError, as `require_seeing`, if a model's config is known and has nothing that
    an option is about."""
    source = request.model if request.checkpoint is None else request.checkpoint
    if source is None:
        return
    preset = preset_name(source) if request.checkpoint is None else None
    directory = known_directory(source, preset)
    if directory is not None:
        sees = {
            "--vision-quant": request.vision_quant,
            "--calibration-images": request.calibration_images,
        }
        require_seeing(directory, request.delegate, not request.no_vision, sees)


def check_file(
    delegate: str,
    out: Path | None,
    etrecord: Path | None,
    max_size: str | None = None,
    bits: float | None = None,
    explained: Path | None = None,
) -> None:
    """Raises DelegateError, ExportError or QuantError if an option of the file, or of the JSON that
    explains it, is not valid."""
    check_delegate(delegate)
    check_outputs(explained or out, etrecord)
    check_endings(out, etrecord)
    check_budget(bits, None if max_size is None else parse_size(max_size, "--max-size"))
