"""A checkpoint of a model that hears, as the export takes it, whatever its architecture."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.hugging_face import open_all, read_spec
from exporter.hearing.transcription import Transcription
from exporter.listener import Listener
from exporter.models.family import Family, Spec
from exporter.module.source import Made
from quant.scheme import Scheme

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class HearingSource(Generic[Model]):
    """
    Attributes:
        model_type: its name in config.json.
        vocab_size: of its texts.
        blobs: how the model reads sound and writes texts, by their names in the file.
        facts: what the report says of the model.
        load: returns it with its weights.
        quantize: stores its weights in place, by a scheme of hearing_scheme() that is not none.
        methods: returns the file's methods.
        stock_methods: those that ExecuTorch's own runner calls; None: there are none.
    """

    model_type: str
    vocab_size: int
    blobs: Mapping[str, bytes]
    facts: Mapping[str, object]
    load: Callable[[], Model]
    quantize: Callable[[Model, Scheme, Listener], None]
    methods: Callable[[Model], Mapping[str, Made]]
    stock_methods: Callable[[Model], Mapping[str, Made]] | None = None


def open_model(directory: Path, family: Family[Spec]) -> Checkpoint[Spec]:
    """Maps the weights of a directory in Hugging Face's form.

    Raises:
        ExportError: a file is missing or damaged, or the model is not supported.
    """
    name = directory.resolve().name
    return Checkpoint(read_spec(directory, family), directory, name, open_all(directory), family)


def without_weights(make: Callable[[], Model]) -> Model:
    with torch.device("meta"):
        return make()


def loaded(checkpoint: Checkpoint[Any], make: Callable[[], Model]) -> Model:
    """Returns the model that `make` makes with its weights, float32."""
    model = without_weights(make)
    checkpoint.load_into(model, "")
    return model.eval().requires_grad_(False)


def model_facts(
    checkpoint: Checkpoint[Any],
    empty: nn.Module,
    hidden_size: int,
    most_tokens: int,
    texts: Transcription,
    streams: bool = False,
) -> dict[str, object]:
    """
    Args:
        empty: the model without weights.
        most_tokens: of a text.
        texts: how it writes them.
        streams: whether it reads sound that arrives.
    """
    spec = checkpoint.config
    return {
        "name": checkpoint.name,
        "model_type": spec.model_type,
        "task": "transcription",
        "parameters": sum(one.numel() for one in empty.parameters()),
        "hidden_size": hidden_size,
        "num_hidden_layers": spec.num_hidden_layers,
        "vocab_size": spec.vocab_size,
        "max_context_len": most_tokens,
        "timestamps": texts.timed_parts,
        "languages": list(texts.languages),
        "streams": streams,
    }
