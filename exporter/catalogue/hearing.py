"""Which directories hold models that hear. Importing this module is fast."""

from pathlib import Path

from exporter.catalogue.weight_files import CONFIG
from exporter.errors import ExportError
from exporter.json_object import read_object

HEARING = ("whisper",)  # what model_type names, of exporter.models


def is_hearing(directory: Path) -> bool:
    """Whether a directory holds a model of speech to text, by its config."""
    try:
        return read_object(directory / CONFIG).get("model_type") in HEARING
    except (OSError, ExportError):  # what reads it as a decoder's says why it cannot be read
        return False
