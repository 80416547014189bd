"""Which directories hold models that hear. Importing this module is fast."""

import zipfile
from pathlib import Path

from exporter.catalogue.weight_files import CONFIG
from exporter.errors import ExportError
from exporter.json_object import read_object

CTRANSLATE2 = "model.bin"  # the weights, in CTranslate2's form
# A file of weights alone, under these names in the directory that stands for it.
OPENAI, GGML = "openai.pt", "ggml.bin"
_GGML_BEGIN = b"lmgg"
_OF_OPENAI = b"model_state_dict", b"n_audio_ctx"  # names in what it pickles
_KIND = b"WhisperSpec"  # which begins them
_BEGIN = 64  # bytes that have it
# What model_type names, of exporter.models.
HEARING = ("whisper", "moonshine", "moonshine_streaming", "parakeet_ctc")


def is_hearing(directory: Path) -> bool:
    """Whether a directory holds a model of speech to text, by its config or its weights, or a file
    is one."""
    if is_ctranslate2(directory) or is_ggml_file(directory) or is_openai_file(directory):
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


def is_ggml_file(path: Path) -> bool:
    """Whether a file is a Whisper of whisper.cpp's."""
    if not path.is_file():  # a pipe would be waited for
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_GGML_BEGIN)) == _GGML_BEGIN
    except OSError:
        return False


def is_openai_file(path: Path) -> bool:
    """Whether a file is a Whisper as OpenAI publishes them."""
    if path.suffix != ".pt" or not path.is_file() or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = [one for one in archive.namelist() if one.endswith("/data.pkl")]
            pickled = archive.read(name)
    except (OSError, ValueError, zipfile.BadZipFile):
        return False
    return all(text in pickled for text in _OF_OPENAI)
