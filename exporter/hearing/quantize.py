"""Stores the weights of a model that hears as integers."""

from functools import partial

import torch
from torch import Tensor, nn

from exporter.hearing.calibration import Calibration
from exporter.models.whisper import DecoderLayer, Whisper
from exporter.module.quantize_layers import LayerQuantizer, linears_of, round_convolution
from quant.modules import QuantizedEmbedding
from quant.progress import ProgressCallback, ProgressMeter
from quant.rounding.nearest import round_weight
from quant.scheme import EMBEDDING_PART, Scheme


@torch.no_grad()
def quantize(
    model: Whisper,
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
    linears = linears_of(model).values()
    numbers = table.weight.numel() + sum(linear.weight.numel() for linear in linears)
    meter = ProgressMeter(numbers, progress)
    quantizer = LayerQuantizer(scheme, own, meter)
    if calibration is not None:
        _calibrate(model, quantizer, calibration)
    else:
        quantizer.round(model)
    for name in ("conv1", "conv2"):
        round_convolution(model.encoder, name)
    rounded = round_weight(table.weight, type, "decoder.embed_tokens", scheme.choice)
    model.decoder.embed_tokens = QuantizedEmbedding(rounded, table.embedding_dim)
    meter.advance("decoder.embed_tokens", table.weight.numel())


def _calibrate(model: Whisper, quantizer: LayerQuantizer, calibration: Calibration) -> None:
    encoder, decoder = model.encoder, model.decoder
    states = [encoder.embed(window[None]) for window in calibration.features]
    for index, layer in enumerate(encoder.layers):
        name = f"encoder.layers.{index}"
        states = quantizer.solve(name, layer, layer, [(x,) for x in states])
    states = [encoder.layer_norm(x) for x in states]
    length = calibration.tokens.shape[1]
    places = decoder.embed_positions.weight[:length]
    texts = [decoder.embed_tokens(tokens[None]) + places for tokens in calibration.tokens]
    hidden = torch.full((length, length), -torch.inf).triu(1)[None, None]
    for index, layer in enumerate(decoder.layers):
        assert isinstance(layer, DecoderLayer)
        run = partial(_read_text, layer, hidden)
        heard = [(x, states[at % len(states)]) for at, x in enumerate(texts)]
        texts = quantizer.solve(f"decoder.layers.{index}", layer, run, heard)


def _read_text(layer: DecoderLayer, hidden: Tensor, x: Tensor, states: Tensor) -> Tensor:
    """Runs a layer of the decoder on all tokens of a text at once.

    Args:
        hidden: what hides later tokens from each.
        states: of the window that it hears.
    """
    attention, nothing = layer.encoder_attn, x.new_empty(1, 0, x.shape[2])
    window = attention.k_proj(states), attention.v_proj(states)
    return layer(x, (nothing, nothing), window, hidden)[0]
