"""Weights whose integers are stored already: they stay as they are.

A part is stored in one type. Where its linears are not, that type is one which holds the integers
of each exactly: int8 in groups of 32.
"""

import torch
from torch import nn
from torch.nn import functional as F

from quant.errors import QuantError
from quant.layers.blocks import parts_of_layer, quantize_linear, weight_of
from quant.layers.nearest import Done
from quant.machine.device import move
from quant.modules import QuantizedWeight
from quant.protocols import IntegerSource, WeightSource
from quant.rounding.nearest import require_finite, round_weight
from quant.scheme import Scheme
from quant.weight_type import WeightType


def integer_source(weights: WeightSource) -> IntegerSource:
    """The weights, which must be able to give integers.

    Raises:
        QuantError: they are not.
    """
    if not isinstance(weights, IntegerSource):
        raise QuantError("scheme 'keep' needs weights that are stored as integers.")
    return weights


def keep_layer(
    layer: nn.Module,
    scheme: Scheme,
    name: str,
    weights: WeightSource,
    done: Done,
    device: torch.device,
) -> None:
    """Gives every linear of a layer on a device, whose name is `name`, its stored integers; those
    without any are rounded to nearest."""
    for part in parts_of_layer(layer):
        type = scheme.type_of(f"{name}.{part.name}")
        assert type is not None
        for linear in part.linears:
            full_name, numbers = f"{name}.{linear}", weight_of(layer, linear).numel()
            kept = keep_weight(weights, f"{full_name}.weight", type, scheme)
            quantize_linear(layer, linear, kept)
            done(full_name, numbers)
    move(layer, device)


def keep_weight(
    weights: WeightSource, name: str, type: WeightType, scheme: Scheme
) -> QuantizedWeight:
    """The stored integers of a weight in that type; rounded to nearest where there are none.

    Raises:
        QuantError: a stored scale or value is not finite.
    """
    stored = integer_source(weights).integers(name)
    if stored is None:
        return round_weight(weights.tensor(name), type, name, scheme.choice)
    require_finite(stored.scales, name)
    return _in_type(stored, type)


def _in_type(weight: QuantizedWeight, type: WeightType) -> QuantizedWeight:
    """The same numbers in a type of as many bits or more and groups of the same size or parts of
    it."""
    if weight.type == type:
        return weight
    times = weight.type.group_size // type.group_size
    padding = type.padded(weight.values.shape[1]) - weight.values.shape[1]
    scales = weight.scales.repeat_interleave(times, dim=1)
    return QuantizedWeight(F.pad(weight.values, (0, padding)), scales, type)
