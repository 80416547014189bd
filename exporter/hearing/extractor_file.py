"""What a checkpoint's file of its extractor says of sound."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.errors import ExportError
from exporter.json_object import read_object

_FILE, _PROCESSOR = "preprocessor_config.json", "processor_config.json"
_OF_PROCESSOR = "feature_extractor"  # which holds, in the second file, what the first one does


def read_extractor(
    directory: Path, extractor: str, must_be: Mapping[str, object]
) -> tuple[Path, dict[str, Any]]:
    """Returns the file and its fields.

    Args:
        extractor: the class of `transformers` that makes what the model reads.
        must_be: the only values of fields that are supported.

    Raises:
        ExportError: the file is missing or damaged, or asks for something else.
    """
    path, fields = _fields(directory)
    named = fields.get("feature_extractor_type", extractor)
    if named != extractor:
        raise ExportError(f"{path} has feature_extractor_type {named}, but must have {extractor}.")
    for name, value in must_be.items():
        if fields.get(name, value) not in (value, None):
            raise ExportError(f"{path} has {name} {fields[name]}, but only {value} is supported.")
    return path, fields


def _fields(directory: Path) -> tuple[Path, dict[str, Any]]:
    path = directory / _FILE
    if path.is_file():
        return path, read_object(path)
    path = directory / _PROCESSOR
    fields = read_object(path).get(_OF_PROCESSOR) if path.is_file() else None
    if not isinstance(fields, dict):
        raise ExportError(
            f"{directory} has no {_FILE}, nor a {_PROCESSOR} with a {_OF_PROCESSOR}, which say how "
            "the model reads sound."
        )
    return path, fields


def checked_number(path: Path, name: str, value: object, most: int) -> int:
    """Returns a field's value.

    Raises:
        ExportError: it is not a number from 1 to `most`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ExportError(f"{path} has {name} {value}, but it must be a number from 1 to {most}.")
    return value
