"""Which directories hold models that see. Importing this module is fast."""

from pathlib import Path

from exporter.catalogue.weight_files import CONFIG
from exporter.errors import ExportError
from exporter.json_object import read_object

# The module of exporter.models that computes what sees, by the config's model_type.
SEEING = {
    **{"smolvlm": "siglip", "idefics3": "siglip", "lfm2_vl": "siglip2"},
    **{"gemma3": "gemma_sight", "gemma4": "gemma4_sight"},
    **{"qwen3_5": "qwen_sight", "qwen3_vl": "qwen_sight"},
}


def is_seeing(directory: Path) -> bool:
    """Whether a directory holds a model that reads pictures and text, by its config."""
    try:
        fields = read_object(directory / CONFIG)
    except (OSError, ExportError):  # what reads it as a decoder's says why it cannot be read
        return False
    return fields.get("model_type") in SEEING and fields.get("vision_config") is not None
