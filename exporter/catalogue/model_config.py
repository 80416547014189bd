"""What the config of a model says, before its weights are opened. Importing this module is fast."""

import os
from dataclasses import replace
from pathlib import Path

from exporter.catalogue.names import EMBEDDED, EMBEDDED_PRESET, preset_name
from exporter.catalogue.published import SHAPES
from exporter.catalogue.weight_files import CONFIG, has_weights, meta_files, no_config
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.families import Family, decoder_spec, get_family, language_fields
from exporter.models.spec import DecoderSpec


def known_spec(model: str | None, checkpoint: str | None) -> DecoderSpec | None:
    """Returns the decoder of a model by its preset or its directory's config.json.

    Args:
        model, checkpoint: as the command line names them.

    Returns:
        The decoder; None if only the weights' own file, or the hub, knows it.

    Raises:
        ExportError: as `read_model_config` does.
    """
    source = model if checkpoint is None else checkpoint
    if source is None:
        return None
    preset = preset_name(source) if checkpoint is None else None
    if preset is not None and preset != EMBEDDED_PRESET:
        return next(decoder_spec(fields) for name, fields, _ in SHAPES if name == preset)
    directory = known_directory(source, preset)
    return None if directory is None else read_model_config(directory)[1]


def known_directory(source: str, preset: str | None) -> Path | None:
    """The directory of a source, or of the embedded model, if it has a `config.json`."""
    if preset == EMBEDDED_PRESET:
        return EMBEDDED
    directory = Path(os.path.expanduser(source))
    of_meta = meta_files(directory) and not has_weights(directory)
    return None if of_meta or not os.path.isfile(directory / CONFIG) else directory


def read_config(path: Path, family: Family | None = None) -> tuple[Family, DecoderSpec]:
    """Reads a Hugging Face `config.json`.

    Args:
        family: the architecture; None: the family of the config's model_type.

    Raises:
        ExportError: the file is missing, is not JSON, names an unsupported architecture, lacks a
            field, or asks for something that the decoder does not compute.
    """
    try:
        fields = read_object(path)
    except FileNotFoundError:
        raise no_config(path) from None
    try:
        language = language_fields(fields)
        family = get_family(language.get("model_type")) if family is None else family
        return family, family.spec(language)
    except ExportError as error:
        raise ExportError(f"{path}: {error}") from None


def read_model_config(directory: Path, family: Family | None = None) -> tuple[Family, DecoderSpec]:
    """Reads `config.json`, and adds the end-of-text ids of `generation_config.json`.

    Raises:
        ExportError: as `read_config` does.
    """
    family, config = read_config(directory / CONFIG, family)
    path = directory / "generation_config.json"
    if not path.is_file():
        return family, config
    ids = read_object(path).get("eos_token_id")
    stops = ids if isinstance(ids, list) else [] if ids is None else [ids]
    vocabulary = range(config.vocab_size)
    if not all(type(stop) is int and stop in vocabulary for stop in stops):
        raise ExportError(
            f"{path} has an eos_token_id that is not a token id of this model: {ids!r}; vocab_size "
            f"is {config.vocab_size}."
        )
    ends = tuple(dict.fromkeys((*config.eos_token_ids, *stops)))
    return family, replace(config, eos_token_ids=ends)
