"""Models by name: their published shapes, and the hub ids of their weights."""

from dataclasses import dataclass

from exporter.catalogue.names import check_model, preset_name
from exporter.catalogue.published import SHAPES
from exporter.checkpoint import open_checkpoint
from exporter.models.families import Family, decoder_spec
from exporter.models.spec import DecoderSpec


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


PRESETS = {name: Model(name, decoder_spec(fields), source) for name, fields, source in SHAPES}


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
    check_model(name)
    checkpoint = open_checkpoint(name, family)
    return Model(checkpoint.name, checkpoint.config, name)
