"""Finding out what kind of checkpoint a name means, and opening it."""

from pathlib import Path

from exporter.checkpoint import hugging_face
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.errors import ExportError


def open_checkpoint(source: str | Path) -> Checkpoint:
    """Opens a model directory; no weight is read yet.

    Args:
        source: a directory in the Hugging Face layout.

    Raises:
        ExportError: nothing there, or a damaged or unsupported checkpoint.
    """
    directory = Path(source).expanduser()
    if not directory.is_dir():
        raise ExportError(f"There is no directory {source}; check the path given to --checkpoint.")
    config = hugging_face.read_model_config(directory)
    name = directory.resolve().name
    return Checkpoint(config, directory, name, hugging_face.open_weights(directory))
