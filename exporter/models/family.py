"""An architecture as a value: how to read its config, and how its checkpoints store tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.models.spec import DecoderSpec
from exporter.models.tensor_layout import Stored


def none_unread(spec: DecoderSpec, name: str) -> bool:
    """For families whose checkpoints store nothing that the decoder does not need."""
    return False


def by_name(spec: DecoderSpec, name: str) -> Stored:
    """Describes tensors that are stored as the model has them, under the same names."""
    return Stored((name,))


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        model_type: its name in config.json.
        spec: maps the fields of a config.json to the decoder; raises ExportError for what the
            decoder does not compute and for fields that are missing, wrong or out of range.
        stored: tells how a checkpoint of this decoder stores the model's tensor of that name.
        is_unread: whether checkpoints may store a tensor of that name that nothing needs.
    """

    model_type: str
    spec: Callable[[Mapping[str, Any]], DecoderSpec]
    stored: Callable[[DecoderSpec, str], Stored] = by_name
    is_unread: Callable[[DecoderSpec, str], bool] = none_unread
