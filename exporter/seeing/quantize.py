"""Stores the weights of what sees as integers."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from exporter.models import qwen_sight
from exporter.module.quantize_layers import LayerQuantizer, linears_of, round_convolution
from exporter.seeing.towers import Tower
from quant.modules import set_weight
from quant.progress import ProgressCallback, ProgressMeter
from quant.rounding.nearest import round_int8
from quant.scheme import Scheme
from quant.weight_type import INT8_GROUPS


@torch.no_grad()
def quantize(
    tower: Tower,
    scheme: Scheme,
    tiles: Sequence[Tensor],
    progress: ProgressCallback | None,
    with_convolution: bool = True,
) -> None:
    """Replaces linears, and what embeds patches, in place.

    Args:
        scheme: of window_scheme().
        tiles: to calibrate on, for a scheme that needs it.
        with_convolution: whether a convolution is replaced, too.

    Raises:
        QuantError: a weight holds a value that is not finite.
    """
    if scheme.type is None:
        return
    _round_patches(tower.vision_model.embeddings, with_convolution)
    numbers = sum(linear.weight.numel() for linear in linears_of(tower).values())
    quantizer = LayerQuantizer(scheme, scheme.type, ProgressMeter(numbers, progress))
    if scheme.needs_calibration:
        model, deepstack = tower.vision_model, _deepstack(tower)
        states, turns = [model.embeddings(x) for x in tiles], [model.turns(x) for x in tiles]
        for index, layer in enumerate(model.encoder.layers):
            calls = [(x, *turn) for x, turn in zip(states, turns, strict=True)]
            states = quantizer.solve(f"layers.{index}", layer, layer, calls)
            if str(index) in deepstack:
                deep = deepstack[str(index)]
                quantizer.solve(f"deepstack.{index}", deep, deep, [(x,) for x in states])
        last = [(model.post_layernorm(x),) for x in states]
        quantizer.solve("connector", tower.connector, tower.connector, last)
    else:
        quantizer.round(tower)


def _deepstack(tower: Tower) -> Mapping[str, nn.Module]:
    """Returns what projects the states of layers, by their numbers."""
    return dict(tower.deepstack) if isinstance(tower, qwen_sight.Tower) else {}


def _round_patches(embeddings: nn.Module, with_convolution: bool) -> None:
    """In int8, whatever the type of linears is; a linear's in groups, since the numbers of places
    are others than those of pixels."""
    name = "patch_embedding"
    linear = getattr(embeddings, name)
    if isinstance(linear, nn.Linear):
        set_weight(embeddings, name, round_int8(linear.weight, name, INT8_GROUPS))
    elif with_convolution:
        round_convolution(embeddings, name)
