"""One decoder layer by round to nearest: no text is needed, and no hidden states."""

from collections.abc import Callable

from torch import nn

from quant.blocks import parts_of_layer, quantize_linear, weight_of
from quant.rounding import round_int4, round_int8
from quant.scheme import Scheme

Done = Callable[[str, int], None]  # a weight's name, how many numbers it has


def round_layer(layer: nn.Module, scheme: Scheme, name: str, done: Done) -> None:
    """Rounds every linear of a layer to nearest; `name` is the layer's."""
    for part in parts_of_layer(layer):
        bits = scheme.bits_of(f"{name}.{part.name}")
        for linear in part.linears:
            full_name, weight = f"{name}.{linear}", weight_of(layer, linear)
            if bits == 4:
                quantized = round_int4(weight, scheme.group_size, full_name, scheme.choice)
            else:
                quantized = round_int8(weight, full_name)
            quantize_linear(layer, linear, quantized)
            done(full_name, weight.numel())
