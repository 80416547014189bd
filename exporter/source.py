"""Which checkpoint an export takes: the one named, the preset's own, or the embedded model."""

from pathlib import Path

from exporter.checkpoint import Checkpoint, open_checkpoint
from exporter.listener import Listener
from exporter.options import ExportOptions
from exporter.presets import PRESETS, preset_name, resolve_model

EMBEDDED = Path(__file__).parent / "embedded"
EMBEDDED_NAME = "thimble-python-4m"
EMBEDDED_PRESET = "llama3.2-1b"  # what `llama3` stands for


def open_model(name: str) -> Checkpoint:
    """The checkpoint of a preset, a directory or a hub id.

    Raises:
        ExportError: there is none of that name, or a damaged one.
    """
    if preset_name(name) == EMBEDDED_PRESET:
        return open_checkpoint(EMBEDDED)
    return open_checkpoint(resolve_model(name).source)


def find_checkpoint(options: ExportOptions, listener: Listener) -> Checkpoint:
    """Opens the weights of the model that was asked for.

    Raises:
        ExportError: no such model or checkpoint, or a damaged one.
    """
    if options.checkpoint is not None:
        if preset_name(options.model) is None:
            resolve_model(options.model)
        return open_checkpoint(options.checkpoint)
    checkpoint = open_model(options.model)
    if preset_name(options.model) == EMBEDDED_PRESET:
        checkpoint.name = EMBEDDED_NAME
        listener.note(
            f"No --checkpoint given: exporting {EMBEDDED_NAME}, the small Llama 3 that ships with "
            f"this package. For the real one: --checkpoint {PRESETS[EMBEDDED_PRESET].source}"
        )
    return checkpoint
