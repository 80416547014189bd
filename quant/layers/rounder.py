"""How a scheme rounds a decoder layer."""

from collections.abc import Callable

import torch
from torch import nn

from quant.baselines.awq import awq_layer
from quant.layers.block_solver import Streams
from quant.layers.blocks import linear_weights
from quant.layers.gptq import gptq_layer
from quant.layers.keep_integers import keep_layer
from quant.layers.nearest import Done, round_layer
from quant.machine.device import move
from quant.protocols import WeightSource
from quant.scheme import KEEP, Scheme

# A layer in float on its device, its name, the calibration text in front of it and what is told of
# each weight, to the paths of experts that got too few tokens of that text. A layer that follows
# the text runs it through itself.
LayerRounder = Callable[[nn.Module, str, Streams | None, Done], list[str]]


def layer_rounder(scheme: Scheme, weights: WeightSource, device: torch.device) -> LayerRounder:
    """Returns what gives a layer, in place, the form that it has in a scheme.

    Args:
        weights: where integers are read that are kept.
    """

    def leave(layer: nn.Module, name: str, streams: Streams | None, done: Done) -> list[str]:
        done(name, linear_weights(layer))
        return []

    def keep(layer: nn.Module, name: str, streams: Streams | None, done: Done) -> list[str]:
        keep_layer(layer, scheme, name, weights, done)
        move(layer, device)
        return []

    def nearest(layer: nn.Module, name: str, streams: Streams | None, done: Done) -> list[str]:
        round_layer(layer, scheme, name, done)
        return []

    def awq(layer: nn.Module, name: str, streams: Streams | None, done: Done) -> list[str]:
        assert streams is not None
        awq_layer(layer, scheme, name, streams, done)
        return []

    def gptq(layer: nn.Module, name: str, streams: Streams | None, done: Done) -> list[str]:
        assert streams is not None
        return gptq_layer(layer, scheme, name, streams, done)

    if scheme.name in ("none", KEEP):
        return leave if scheme.name == "none" else keep
    return {"awq": awq, "gptq": gptq}.get(scheme.choice.rounding, nearest)
