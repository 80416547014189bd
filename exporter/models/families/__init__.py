"""Families: each file says what the config.json of one model_type means.

Another package can add a family with an entry point of the group `thimble.families`: its name is
the model_type, its value a Family.
"""

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Mapping
from typing import Any

from exporter.catalogue.encoders import ENCODERS
from exporter.catalogue.hearing import HEARING
from exporter.catalogue.seeing import SEEING
from exporter.errors import ExportError
from exporter.models.family import Family
from exporter.models.spec import DecoderSpec

__all__ = ["Family", "decoder_spec", "family_names", "get_family", "language_fields"]

_GROUP = "thimble.families"
_TIED = "tie_word_embeddings"
_OF_THE_WHOLE = ("bos_token_id", "eos_token_id", _TIED, "quantization", "quantization_config")
_MOST_LAYERS = 10_000


def family_names() -> tuple[str, ...]:
    """Returns every known model_type: those of this folder, then those of other packages."""
    return tuple(dict.fromkeys((*_own(), *sorted(_offered()))))


def get_family(model_type: object) -> Family:
    """Returns the family of a model_type.

    Raises:
        ExportError: there is none, or the one of another package cannot be imported.
    """
    if model_type in _own():
        family: Family = importlib.import_module(f"{__name__}.{model_type}").FAMILY
        return family
    entry_point = _offered().get(model_type) if isinstance(model_type, str) else None
    if entry_point is None:
        raise ExportError(_unsupported(model_type))
    try:
        loaded = entry_point.load()
    except (ImportError, AttributeError) as error:
        raise ExportError(
            f"model_type {model_type!r} ({entry_point.value}) cannot be imported: {error}; repair "
            "the package that provides it."
        ) from error
    if not isinstance(loaded, Family):
        raise ExportError(
            f"model_type {model_type!r} ({entry_point.value}) is not a Family; repair the package "
            "that provides it."
        )
    return loaded


def _unsupported(model_type: object) -> str:
    what = "it has no model_type"
    if model_type is not None:
        what = f"model_type {model_type!r} is not supported"
    names = dict.fromkeys((*family_names(), *sorted((*ENCODERS, *HEARING, *SEEING))))
    known = ", ".join(name for name in names if name != model_type)
    return f"{what}; supported are {known}; any other module is exported as module.py:make."


def decoder_spec(fields: Mapping[str, Any]) -> DecoderSpec:
    """Returns the decoder of a config.json, by the family of its model_type.

    Raises:
        ExportError: as `get_family` and the family do.
    """
    fields = language_fields(fields)
    return get_family(fields.get("model_type")).spec(fields)


def language_fields(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the fields of the language model: those in `text_config`, if the config has one. For
    tokens and weights, the outer fields are used where `text_config` has none."""
    text = fields.get("text_config")
    if text is not None and not isinstance(text, dict):
        raise ExportError(f"text_config is {text!r}; it must be an object.")
    layers = (text or fields).get("num_hidden_layers")
    if isinstance(layers, int) and layers > _MOST_LAYERS:  # a list of them would fill the memory
        raise ExportError(f"num_hidden_layers is {layers}; at most {_MOST_LAYERS} are supported.")
    if text is None:
        return fields
    outer = {
        name: fields[name] for name in _OF_THE_WHOLE if name in fields and text.get(name) is None
    }
    if fields.get(_TIED) is False:  # then the text's true is a default
        outer[_TIED] = False
    return {**text, **outer}


def _own() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def _offered() -> dict[str, importlib.metadata.EntryPoint]:
    entries = importlib.metadata.entry_points(group=_GROUP)
    return {entry_point.name: entry_point for entry_point in entries}
