"""What encoders share that are a decoder's layers, without its head."""

from collections.abc import Callable
from dataclasses import replace

from exporter.models.encoder_spec import StackSpec
from exporter.models.spec import DecoderSpec, TextReading
from exporter.models.tensor_layout import Stored


def reading_texts(decoder: DecoderSpec, text: TextReading) -> StackSpec:
    """Returns a decoder as an encoder, whose attention reads texts like that."""
    layers = []
    for layer in decoder.layers:
        layers.append(replace(layer, mixer=replace(layer.attention, text=text)))
    return StackSpec(replace(decoder, layers=tuple(layers)))


def bare(stored: Callable[[DecoderSpec, str], Stored]) -> Callable[[StackSpec, str], Stored]:
    """Returns how tensors are stored by their names without the "model." of a causal LM."""

    def without_model(spec: StackSpec, name: str) -> Stored:
        kept = stored(spec.decoder, name)
        return replace(kept, names=tuple(part.removeprefix("model.") for part in kept.names))

    return without_model


def is_head(_: StackSpec, name: str) -> bool:
    """Whether a tensor is of what predicts tokens."""
    return name.startswith("lm_head.")
