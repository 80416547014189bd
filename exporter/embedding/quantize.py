"""Fills an encoder with the quantized form of stored weights, one weight at a time."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from exporter.checkpoint.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.models.encoder import EmbeddingModel
from exporter.models.encoder_spec import AnyEncoderSpec
from quant.layers.block_solver import Streams
from quant.layers.gptq import gptq_layer
from quant.layers.stream import Stream
from quant.modules import QuantizedEmbedding, set_weight
from quant.progress import ProgressCallback, ProgressMeter
from quant.rotation.inputs import rotate_blocks
from quant.rounding.nearest import require_finite, round_weight
from quant.scheme import EMBEDDING_PART, Scheme
from quant.weight_type import WeightType

SCHEMES = "none", "rtn8", "rtn4", "gptq4"
_TABLE, _LAYERS = "embed_tokens", "model.layers."


def stored_scheme(scheme: Scheme) -> Scheme:
    """Returns the scheme as encoders are stored: 8 bits with one scale a row, which long calls
    multiply a quarter faster than groups.

    Raises:
        ExportError: encoders are not quantized by it.
    """
    if scheme.name not in SCHEMES:
        raise ExportError(
            f"--quant {scheme.name} is not supported for encoders; use one of {', '.join(SCHEMES)}."
        )
    return replace(scheme, whole_rows=True) if scheme.name == "rtn8" else scheme


@torch.no_grad()
def load_quantized(
    model: EmbeddingModel,
    checkpoint: Checkpoint[AnyEncoderSpec],
    scheme: Scheme,
    calibration: Tensor | None,
    progress: ProgressCallback | None,
) -> None:
    """Replaces the parameters of a model on the meta device, its linears and the table of its
    tokens by quantized ones unless the scheme is "none".

    Args:
        calibration: int64 (windows, seq_len), for a scheme that needs it; else None.

    Raises:
        ExportError, QuantError: a weight does not fit, or holds a value that is not finite.
    """
    meter = ProgressMeter(sum(p.numel() for p in model.parameters()), progress)
    outside = [(path, own) for path, own in _owners(model) if not path.startswith(_LAYERS)]
    for path, module in outside:
        _load(checkpoint, module, path)
    reference = None
    if calibration is not None and scheme.choice.follows_float:
        reference = _stream(model, calibration)
    for path, module in outside:
        numbers = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        _round(model, module, path, scheme, scheme.type_of(EMBEDDING_PART))
        meter.advance(path, numbers)
    streams = None if calibration is None else Streams(_stream(model, calibration), reference)
    for index, layer in enumerate(model.model.layers):
        name = f"{_LAYERS}{index}"
        for path, module in _owners(layer):
            _load(checkpoint, module, f"{name}.{path}")
        if streams is not None:
            gptq_layer(layer, scheme, name, streams, meter.advance)
            continue
        for path, module in _owners(layer):
            numbers = sum(parameter.numel() for parameter in module.parameters(recurse=False))
            _round(layer, module, path, scheme, scheme.type)
            meter.advance(f"{name}.{path}", numbers)


def _owners(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Returns the modules that have parameters of their own, by their paths."""
    return [
        (path, module)
        for path, module in model.named_modules()
        if any(True for _ in module.parameters(recurse=False))
    ]


def _load(checkpoint: Checkpoint[AnyEncoderSpec], module: nn.Module, path: str) -> None:
    checkpoint.load_into(module, f"{path}.")
    for name, parameter in module.named_parameters(recurse=False):
        require_finite(parameter, f"{path}.{name}")


def _stream(model: EmbeddingModel, text: Tensor) -> Stream:
    """Returns the hidden states of a text in front of the layers."""
    return Stream(text, model.model.embed, model.model.context(text.shape[1]))


def _round(
    root: nn.Module, module: nn.Module, path: str, scheme: Scheme, type: WeightType | None
) -> None:
    """Rounds a linear, or the table of tokens, to nearest."""
    parent_path, _, name = path.rpartition(".")
    if type is None or not (isinstance(module, nn.Linear) or name == _TABLE):
        return
    parent, weight = root.get_submodule(parent_path), module.get_parameter("weight")
    if isinstance(module, nn.Embedding):
        table = round_weight(weight, type, path, scheme.choice)
        setattr(parent, name, QuantizedEmbedding(table, module.embedding_dim))
        return
    rotated = scheme.choice.rotated(weight.shape[1])
    quantized = round_weight(rotate_blocks(weight, rotated), type, path, scheme.choice)
    set_weight(parent, name, replace(quantized, rotated=rotated))
