"""Which directories hold models that hear. Importing this module is fast."""

from pathlib import Path

from exporter.catalogue.weight_files import CONFIG
from exporter.errors import ExportError
from exporter.json_object import read_object

CTRANSLATE2 = "model.bin"  # the weights, in CTranslate2's form
_KIND = b"WhisperSpec"  # which begins them
_BEGIN = 64  # bytes that have it
HEARING = ("whisper", "moonshine")  # what model_type names, of exporter.models


def is_hearing(directory: Path) -> bool:
    """Whether a directory holds a model of speech to text, by its config or its weights."""
    if is_ctranslate2(directory):
        return True
    try:
        return read_object(directory / CONFIG).get("model_type") in HEARING
    except (OSError, ExportError):  # what reads it as a decoder's says why it cannot be read
        return False


def is_ctranslate2(directory: Path) -> bool:
    """Whether a directory holds a Whisper in CTranslate2's form."""
    try:
        with (directory / CTRANSLATE2).open("rb") as file:
            return _KIND in file.read(_BEGIN)
    except OSError:
        return False
