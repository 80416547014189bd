"""Stores the weights of what sees as integers."""

from collections.abc import Sequence

import torch
from torch import Tensor

from exporter.models.siglip import Tower
from exporter.module.quantize_layers import LayerQuantizer, linears_of, round_convolution
from quant.progress import ProgressCallback, ProgressMeter
from quant.scheme import Scheme


@torch.no_grad()
def quantize(
    tower: Tower, scheme: Scheme, tiles: Sequence[Tensor], progress: ProgressCallback | None
) -> None:
    """Replaces linears, and the convolution of patches, in place.

    Args:
        scheme: of window_scheme().
        tiles: to calibrate on, for a scheme that needs it.

    Raises:
        QuantError: a weight holds a value that is not finite.
    """
    if scheme.type is None:
        return
    numbers = sum(linear.weight.numel() for linear in linears_of(tower).values())
    quantizer = LayerQuantizer(scheme, scheme.type, ProgressMeter(numbers, progress))
    round_convolution(tower.vision_model.embeddings, "patch_embedding")
    if scheme.needs_calibration:
        states = [tower.vision_model.embeddings(tile) for tile in tiles]
        for index, layer in enumerate(tower.vision_model.encoder.layers):
            states = quantizer.solve(f"layers.{index}", layer, layer, [(x,) for x in states])
        last = [(tower.vision_model.post_layernorm(x),) for x in states]
        quantizer.solve("connector", tower.connector, tower.connector, last)
    else:
        quantizer.round(tower)
