"""An architecture as a value: how to read its config, and how its checkpoints store tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from exporter.models.spec import DecoderSpec
from exporter.models.tensor_layout import Stored


class ModelSpec(Protocol):
    """A model as data: what every kind of it has."""

    @property
    def model_type(self) -> str: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def num_hidden_layers(self) -> int: ...

    @property
    def tie_word_embeddings(self) -> bool: ...


Spec = TypeVar("Spec", bound=ModelSpec, default=DecoderSpec)  # a decoder's, or another model's


def none_unread(spec: object, name: str) -> bool:
    """For families whose checkpoints store nothing that the model does not need."""
    return False


def by_name(spec: object, name: str) -> Stored:
    """Describes tensors that are stored as the model has them, under the same names."""
    return Stored((name,))


@dataclass(frozen=True)
class Family(Generic[Spec]):
    """One architecture.

    Attributes:
        model_type: its name in config.json.
        spec: maps the fields of a config.json to the model; raises ExportError for what the model
            does not compute and for fields that are missing, wrong or out of range.
        stored: tells how a checkpoint of this model stores the model's tensor of that name.
        is_unread: whether checkpoints may store a tensor of that name that nothing needs.
    """

    model_type: str
    spec: Callable[[Mapping[str, Any]], Spec]
    stored: Callable[[Spec, str], Stored] = by_name
    is_unread: Callable[[Spec, str], bool] = none_unread
