"""Models by name: their published shapes, and the hub ids of their weights."""

import difflib
import os
from dataclasses import dataclass

from exporter.checkpoint import open_checkpoint
from exporter.checkpoint.hub import is_hub_file, is_hub_id
from exporter.errors import ExportError
from exporter.models.families import Family, decoder_spec
from exporter.models.spec import DecoderSpec
from exporter.published import SHAPES


@dataclass(frozen=True)
class Model:
    """A model that the command line names.

    Attributes:
        name: the preset's name, the hub id or the directory's name.
        config: its shape.
        source: the argument of `open_checkpoint` for its weights: a directory or a hub id.
    """

    name: str
    config: DecoderSpec
    source: str


ALIASES = {"llama2": "llama2-7b", "llama3": "llama3.2-1b"}
PRESETS = {name: Model(name, decoder_spec(fields), source) for name, fields, source in SHAPES}


def preset_name(name: str) -> str | None:
    """Returns the preset for a name on the command line; None if it is not a preset."""
    known = ALIASES.get(name.lower(), name.lower())
    return known if known in PRESETS else None


def resolve_model(name: str, family: Family | None = None) -> Model:
    """Finds the model for a name on the command line.

    Args:
        name: a preset such as "llama3", a model directory, or a hub id, whose files are downloaded.
        family: the architecture; None: the family of the config's model_type.

    Raises:
        ExportError: there is no such preset, directory or hub model, or it cannot be exported.
    """
    preset = preset_name(name)
    if preset is not None:
        return PRESETS[preset]
    if os.path.exists(os.path.expanduser(name)) or is_hub_id(name) or is_hub_file(name):
        checkpoint = open_checkpoint(name, family)
        return Model(checkpoint.name, checkpoint.config, name)
    names = [*ALIASES, *PRESETS]
    close = difflib.get_close_matches(name.lower(), names, n=3)
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    raise ExportError(
        f"There is no model {name!r}{hint}; name one of {', '.join(names)}, a directory, or a hub "
        "id such as meta-llama/Llama-3.2-1B."
    )
