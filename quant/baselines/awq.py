"""AWQ (Lin, Tang, Tang, Yang, Chen, Wang, Xiao, Dang, Gan, Han, 2023), as a baseline.

A linear's input channels that carry large activations are made finer by scaling them up before
rounding, W' = Q(W diag(s)), and their inputs down by the same factors, which are folded into the
norm or the linear before: nothing is left of it at run time. s = m^alpha for the channels' mean
magnitude m; alpha is the one of 20 from 0 to 1 with the least output error
|X W^T - (X / s) W'^T|^2. Scales of groups are then searched, weighted by the inputs' mean squares,
and everything is rounded to nearest.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.layers.block_solver import Streams
from quant.layers.blocks import LayerBlock, blocks_of, quantize_linear, weight_of
from quant.layers.nearest import Done
from quant.rounding.nearest import closed_scales, round_weight
from quant.rounding.scales import round_to_scales
from quant.scheme import Scheme

_ALPHAS = tuple(step / 20 for step in range(20))
_SEARCH_TOKENS = 512
_SMALLEST = 1e-4


def awq_scale(weights: Sequence[Tensor], inputs: Tensor, group_size: int) -> Tensor:
    """The channel scales s of linears that share an input.

    Args:
        weights: float32 (rows, columns) each.
        inputs: float32 (tokens, columns).

    Returns:
        float32 (columns,), all ones where scaling does not help.
    """
    magnitude = inputs.abs().mean(dim=0).clamp_min(_SMALLEST)
    sample = inputs[:: max(1, len(inputs) // _SEARCH_TOKENS)]
    best, best_error = torch.ones_like(magnitude), float("inf")
    for alpha in _ALPHAS:
        scale = magnitude.pow(alpha)
        scale = scale / (scale.amax() * scale.amin()).sqrt()
        error = 0.0
        for weight in weights:
            gap = _rounded(weight * scale, group_size) / scale - weight
            error += (sample @ gap.T).square().sum().item()
        if error < best_error:
            best, best_error = scale, error
    return best


def awq_layer(layer: nn.Module, scheme: Scheme, name: str, streams: Streams, done: Done) -> None:
    """Scales and rounds a layer, and runs the streams through it in place."""
    hidden = list(streams.hidden)
    contexts = [context for own in streams.hidden.contexts for context in own]
    squares: dict[str, Tensor] = {}  # of the inputs of a linear
    for one in blocks_of(layer):
        block = LayerBlock(layer, one)
        readers = [linear for part in one.readers for linear in part.linears]
        inputs = [block.normed(x) for x in hidden]
        squares |= _rescale(layer, readers, one.norm, inputs, scheme)
        inputs = [
            block.reach(block.normed(x), own) for x, own in zip(hidden, contexts, strict=True)
        ]
        squares |= _rescale(layer, (one.end,), one.feeds_last, inputs, scheme)
        hidden = [block.run(x, own) for x, own in zip(hidden, contexts, strict=True)]
    for one in blocks_of(layer):
        for part in one.parts:
            type = scheme.type_of(f"{name}.{part.name}")
            assert type is not None
            for linear in part.linears:
                full_name, weight = f"{name}.{linear}", weight_of(layer, linear)
                quantized = round_weight(weight, type, full_name, scheme.choice, squares[linear])
                quantize_linear(layer, linear, quantized)
                done(full_name, weight.numel())
    streams.hidden.advance(layer)


def _rescale(
    layer: nn.Module,
    linears: Sequence[str],
    maker: str | None,
    inputs: Sequence[Tensor],
    scheme: Scheme,
) -> dict[str, Tensor]:
    """Scales linears up and what makes their input, a norm or a linear, down; returns the mean
    squares of the inputs by linear."""
    x = torch.cat([part.flatten(0, -2) for part in inputs])  # (tokens, columns)
    squares = x.square().mean(dim=0)
    if maker is None:
        return dict.fromkeys(linears, squares)
    weights = [weight_of(layer, linear) for linear in linears]
    scale = awq_scale(weights, x, scheme.group_size)
    for weight in weights:
        weight.mul_(scale)
    made = weight_of(layer, maker)
    made.div_(scale if made.dim() == 1 else scale.unsqueeze(1))
    bias = getattr(layer.get_submodule(maker), "bias", None)
    if bias is not None:
        bias.div_(scale)
    return dict.fromkeys(linears, squares / scale.square())


def _rounded(weight: Tensor, group_size: int) -> Tensor:
    """Rounds a weight (rows, columns) at scales in closed form, and dequantizes it."""
    padding = -weight.shape[1] % group_size
    padded = F.pad(weight, (0, padding)) if padding else weight
    scales = closed_scales(padded, group_size).product()
    values = round_to_scales(padded, scales, group_size)
    rounded = (values.unflatten(1, (-1, group_size)) * scales.unsqueeze(2)).flatten(1)
    return rounded[:, : weight.shape[1]]
