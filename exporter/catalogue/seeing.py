"""Which directories hold models that see. Importing this module is fast."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    fields = _fields(directory)
    kind = SEEING.get(str(fields.get("model_type")))
    return kind in _BY_DELEGATE.get(delegate, ()) and fields.get("vision_config") is not None


def require_seeing(
    directory: Path, delegate: str, vision: bool, given: Mapping[str, object]
) -> None:
    """Refuses options about what sees where the file will not see.

    Args:
        vision: whether what sees is exported, if there is any.
        given: the other options about it, by name; None: not given.

    Raises:
        ExportError: an option has no effect.
    """
    if vision and is_seeing(directory, delegate):
        return
    for option, value in given.items():
        if value is not None:
            raise ExportError(
                f"{option} {value} has no effect, as the file will not see: leave it out, or "
                "export a model that reads pictures with --delegate cpu and without --no-vision."
            )
    if not vision and _fields(directory).get("vision_config") is None:
        raise ExportError(
            "--no-vision has no effect, as this model reads no pictures: leave it out."
        )


def _fields(directory: Path) -> dict[str, Any]:
    try:
        return read_object(directory / CONFIG)
    except (OSError, ExportError):  # what reads it as a decoder's says why it cannot be read
        return {}
