"""Which directories hold models that embed texts. Importing this module is fast."""

from pathlib import Path

from exporter.catalogue.weight_files import CONFIG
from exporter.errors import ExportError
from exporter.json_object import read_object

MODULES = "modules.json"  # of sentence-transformers: what becomes of a text's hidden states
# What model_type names, of exporter.models.encoders: encoders, and decoders that are encoders where
# modules.json pools their rows.
ENCODERS = ("bert", "modernbert", "roberta", "xlm-roberta")
DECODERS = ("gemma3_text", "qwen3")


def is_encoder(directory: Path) -> bool:
    """Whether a directory holds an encoder, by its config."""
    try:
        model_type = read_object(directory / CONFIG).get("model_type")
    except (OSError, ExportError):  # what reads it as a decoder's says why it cannot be read
        return False
    return model_type in ENCODERS or (model_type in DECODERS and (directory / MODULES).is_file())
