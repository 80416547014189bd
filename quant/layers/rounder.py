"""How a scheme rounds a decoder layer."""

from collections.abc import Callable
from typing import cast

import torch
from torch import nn

from quant.baselines.awq import awq_layer
from quant.importance import Importance
from quant.layers.block_solver import Streams
from quant.layers.blocks import linear_weights
from quant.layers.gptq import gptq_layer
from quant.layers.keep_integers import keep_layer
from quant.layers.nearest import Done, round_layer
from quant.protocols import WeightSource
from quant.scheme import KEEP, Scheme

# Takes a layer of floats, its name, and the calibration text in front of it, which a scheme that
# follows the text also runs through the layer. Returns the paths of experts with too few tokens.
LayerRounder = Callable[[nn.Module, str, Streams | None, Done], list[str] | None]


def layer_rounder(
    scheme: Scheme,
    weights: WeightSource,
    device: torch.device,
    importance: Importance | None = None,
) -> LayerRounder:
    """Returns what gives a layer on that device, in place, the form that it has in a scheme.

    Args:
        weights: where integers are read that are kept.
        importance: of columns, in the search of scales.
    """
    if scheme.name == "none":
        return lambda layer, name, _, done: done(name, linear_weights(layer))
    if scheme.name == KEEP:
        return lambda layer, name, _, done: keep_layer(layer, scheme, name, weights, done, device)
    if not scheme.choice.follows_calibration:
        return lambda layer, name, _, done: round_layer(layer, scheme, name, done, importance)
    by_text = awq_layer if scheme.choice.rounding == "awq" else gptq_layer
    return lambda layer, name, text, done: by_text(layer, scheme, name, cast(Streams, text), done)
