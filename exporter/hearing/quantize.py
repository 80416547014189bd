"""Stores the weights of a model that hears as integers."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from exporter.hearing.calibration import Calibration
from exporter.models.moonshine import Moonshine
from exporter.models.moonshine_streaming import MoonshineStreaming
from exporter.models.parakeet import Parakeet
from exporter.models.whisper import Whisper
from exporter.module.quantize_layers import LayerQuantizer, linears_of, round_convolution
from quant.modules import QuantizedEmbedding, set_weight
from quant.progress import ProgressCallback, ProgressMeter
from quant.rotation.inputs import rotate_blocks
from quant.rounding.nearest import round_weight
from quant.scheme import EMBEDDING_PART, Scheme
from quant.weight_type import INT8, WeightType

_LAYERS = ".layers."  # in the names of what the scheme is for


@torch.no_grad()
def quantize(
    model: Whisper | Moonshine | MoonshineStreaming,
    scheme: Scheme,
    calibration: Calibration | None,
    progress: ProgressCallback | None,
) -> None:
    """Replaces linears, and the table of tokens, which is the head as well, in place.

    Args:
        scheme: of hearing_scheme().
        calibration: for a scheme that needs it; else None.

    Raises:
        QuantError: a weight holds a value that is not finite.
    """
    type, own = scheme.type_of(EMBEDDING_PART), scheme.type
    if type is None or own is None:
        return
    table = model.decoder.embed_tokens
    assert isinstance(table, nn.Embedding)
    linears = linears_of(model)
    numbers = table.weight.numel() + sum(linear.weight.numel() for linear in linears.values())
    meter = ProgressMeter(numbers, progress)
    quantizer = LayerQuantizer(scheme, own, meter)
    for name, linear in linears.items():
        if _LAYERS not in name:
            _round_outside(model, name, linear, type, scheme, meter)
    if calibration is not None:
        _calibrate(model, quantizer, calibration)
    else:
        steps = [name for name in linears if _is_of_steps(name)] if own == INT8 else []
        quantizer.round(model, dict.fromkeys(steps, model.STEP_TYPE))
    for name in model.INTEGER_CONVOLUTIONS:
        round_convolution(model.encoder, name)
    # As the head, it has outliers in few columns.
    rotated = scheme.choice.rotated(table.embedding_dim)
    weight = rotate_blocks(table.weight, rotated)
    stored = model.STEP_TYPE if type == INT8 else type
    rounded = round_weight(weight, stored, "decoder.embed_tokens", scheme.choice)
    model.decoder.embed_tokens = QuantizedEmbedding(
        replace(rounded, rotated=rotated), table.embedding_dim
    )
    meter.advance("decoder.embed_tokens", table.weight.numel())


@torch.no_grad()
def quantize_parakeet(
    model: Parakeet, scheme: Scheme, features: Tensor | None, progress: ProgressCallback | None
) -> None:
    """Replaces linears in place: those of layers by the scheme, those around them in 8 bits.

    Args:
        scheme: of hearing_scheme().
        features: (windows, frames, features), for a scheme that needs them; else None.

    Raises:
        QuantError: a weight holds a value that is not finite.
    """
    type, own = scheme.type_of(EMBEDDING_PART), scheme.type
    if type is None or own is None:
        return
    linears, encoder = linears_of(model), model.encoder
    meter = ProgressMeter(sum(one.weight.numel() for one in linears.values()), progress)
    quantizer = LayerQuantizer(scheme, own, meter)
    if features is None:
        quantizer.round(encoder.layers)
    else:
        states = [encoder.subsampling(window[None]) for window in features]
        for index, layer in enumerate(encoder.layers):
            run = partial(encoder.run, layer)
            calls = [(x,) for x in states]
            states = quantizer.solve(f"encoder.layers.{index}", layer, run, calls)
    for name in ("encoder.subsampling.linear", "ctc_head"):
        _round_outside(model, name, linears[name], type, scheme, meter)


def _is_of_steps(name: str) -> bool:
    """Whether each token's step reads a linear. Keys and values of the sound are computed once."""
    of_sound = ".encoder_attn.k_proj", ".encoder_attn.v_proj"
    return name.startswith("decoder.layers.") and not name.endswith(of_sound)


def _round_outside(
    model: nn.Module,
    name: str,
    linear: nn.Linear,
    type: WeightType,
    scheme: Scheme,
    meter: ProgressMeter,
) -> None:
    """Rounds a linear that is in no layer to nearest."""
    path, _, last = name.rpartition(".")
    weight = round_weight(linear.weight, type, name, scheme.choice)
    set_weight(model.get_submodule(path), last, weight)
    meter.advance(name, linear.weight.numel())


def _calibrate(
    model: Whisper | Moonshine | MoonshineStreaming,
    quantizer: LayerQuantizer,
    calibration: Calibration,
) -> None:
    encoder, decoder = model.encoder, model.decoder
    states = [encoder.embed(window[None]) for window in calibration.features]
    for index, layer in enumerate(encoder.layers):
        run = partial(encoder.run, layer)
        states = quantizer.solve(f"encoder.layers.{index}", layer, run, [(x,) for x in states])
    states = [encoder.finish(x) for x in states]
    texts = [decoder.begin(tokens[None]) for tokens in calibration.tokens]
    for index, layer in enumerate(decoder.layers):
        run = partial(decoder.read, layer)
        heard = [(x, states[at % len(states)]) for at, x in enumerate(texts)]
        texts = quantizer.solve(f"decoder.layers.{index}", layer, run, heard)
