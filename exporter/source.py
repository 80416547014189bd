"""Which checkpoint an export takes: the one named, the preset's own, or the embedded model."""

from pathlib import Path

from exporter.checkpoint import Checkpoint, open_checkpoint
from exporter.listener import Listener
from exporter.options import ExportOptions
from exporter.presets import PRESETS, preset_name, resolve_model

EMBEDDED = Path(__file__).parent / "embedded"
EMBEDDED_NAME = "thimble-python-4m"
EMBEDDED_PRESET = "llama3.2-1b"  # what `llama3` stands for


def find_checkpoint(options: ExportOptions, listener: Listener) -> Checkpoint:
    """Opens the weights of the model that was asked for.

    Raises:
        ExportError: no such model or checkpoint, or a damaged one.
    """
    if options.checkpoint is not None:
        if preset_name(options.model) is None:
            resolve_model(options.model)
        return open_checkpoint(options.checkpoint)
    if preset_name(options.model) == EMBEDDED_PRESET:
        checkpoint = open_checkpoint(EMBEDDED)
        checkpoint.name = EMBEDDED_NAME
        listener.note(
            f"No --checkpoint given: exporting {EMBEDDED_NAME}, the small Llama 3 that ships with "
            f"this package. For the real one: --checkpoint {PRESETS[EMBEDDED_PRESET].source}"
        )
        return checkpoint
    return open_checkpoint(resolve_model(options.model).source)
