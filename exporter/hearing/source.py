"""A checkpoint of a model that hears, as the export takes it, whatever its architecture."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import nn

from exporter.listener import Listener
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
        load: returns it with its weights.
        quantize: stores its weights in place, by a scheme of hearing_scheme() that is not none.
        methods: returns the file's methods.
    """

    model_type: str
    vocab_size: int
    blobs: Mapping[str, bytes]
    load: Callable[[], Model]
    quantize: Callable[[Model, Scheme, Listener], None]
    methods: Callable[[Model], Mapping[str, Made]]
