"""One decoder layer by round to nearest: no text is needed, and no hidden states."""

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from quant.importance import Importance
from quant.layers.blocks import parts_of_layer, quantize_linear, weight_of
from quant.protocols import Part
from quant.rotation.inputs import rotate_blocks
from quant.rounding.nearest import round_weight
from quant.scheme import Scheme

Done = Callable[[str, int], None]  # a weight's name, how many numbers it has


def round_layer(
    layer: nn.Module,
    scheme: Scheme,
    name: str,
    done: Done,
    importance: Importance | None = None,
) -> None:
    """Rounds every linear of a layer to nearest; `name` is the layer's."""
    for part in parts_of_layer(layer):
        round_part(layer, part, scheme, name, done, importance)


def round_part(
    layer: nn.Module,
    part: Part,
    scheme: Scheme,
    name: str,
    done: Done,
    importance: Importance | None = None,
) -> None:
    """The same for the linears of one part."""
    type = scheme.type_of(f"{name}.{part.name}")
    assert type is not None
    for linear in part.linears:
        full_name, weight = f"{name}.{linear}", weight_of(layer, linear)
        rotated = scheme.choice.rotated(weight.shape[1])
        cost = None if importance is None else importance.columns.get(full_name)
        quantized = round_weight(
            rotate_blocks(weight, rotated),
            type,
            full_name,
            scheme.choice,
            None if cost is None else cost.to(weight.device),
        )
        quantize_linear(layer, linear, replace(quantized, rotated=rotated))
        done(full_name, weight.numel())
