"""Which directories hold models that embed texts. Importing this module is fast."""

from pathlib import Path

from exporter.catalogue.weight_files import CONFIG
from exporter.errors import ExportError
from exporter.json_object import read_object

ENCODERS = ("bert", "roberta", "xlm-roberta")  # what model_type names, of exporter.models.encoders


def is_encoder(directory: Path) -> bool:
    """Whether a directory holds an encoder, by its config."""
    try:
        return read_object(directory / CONFIG).get("model_type") in ENCODERS
    except (OSError, ExportError):  # what reads it as a decoder's says why it cannot be read
        return False
