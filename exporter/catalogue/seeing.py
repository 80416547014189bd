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
# Those in files of each delegate. Stock ExecuTorch's runner gives pictures of one size, whose rows
# attend to none behind them.
_BY_DELEGATE = {"cpu": frozenset(SEEING.values()), "xnnpack": frozenset({"siglip"})}


def is_seeing(directory: Path, delegate: str) -> bool:
    """Whether a directory holds a model that reads pictures and text, by its config, and a file of
    a delegate does so too."""
    try:
        fields = read_object(directory / CONFIG)
    except (OSError, ExportError):  # what reads it as a decoder's says why it cannot be read
        return False
    kind = SEEING.get(str(fields.get("model_type")))
    return kind in _BY_DELEGATE.get(delegate, ()) and fields.get("vision_config") is not None
