"""Opens the checkpoint of an encoder."""

from pathlib import Path

from exporter.catalogue.weight_files import CONFIG
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.hugging_face import NamedTensors, open_files, stored_names
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.encoder_spec import EncoderSpec
from exporter.models.encoders import encoder_family


def open_encoder(directory: Path) -> Checkpoint[EncoderSpec]:
    """Maps the weights of a directory for which is_encoder() is true, and reads their headers.

    Raises:
        ExportError: there are no weights, or the config or they are damaged or unsupported.
    """
    path = directory / CONFIG
    fields = read_object(path)
    family = encoder_family(fields)
    assert family is not None
    try:
        config = family.spec(fields)
    except ExportError as error:
        raise ExportError(f"{path}: {error}") from None
    files = open_files(directory)
    names = {_bare(name): name for name in stored_names(files)}
    return Checkpoint(
        config, directory, directory.resolve().name, NamedTensors(files, names), family
    )


def _bare(name: str) -> str:
    """A tensor's name without what a model with a head puts before its encoder's."""
    return name.removeprefix("bert.").removeprefix("roberta.")
