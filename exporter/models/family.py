"""An architecture as a value: what its config means, and how its checkpoints are laid out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.models.spec import DecoderSpec
from exporter.models.stored import Stored


def by_name(spec: DecoderSpec, name: str) -> Stored:
    """Tensors that are stored as ours are, under the same names."""
    return Stored((name,))


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        model_type: its name in config.json.
        spec: from the fields of a config.json to the decoder; raises ExportError for what the
            decoder does not compute and for fields that are missing, wrong or out of range.
        stored: how a checkpoint of this decoder keeps our tensor of that name.
    """

    model_type: str
    spec: Callable[[Mapping[str, Any]], DecoderSpec]
    stored: Callable[[DecoderSpec, str], Stored] = by_name
