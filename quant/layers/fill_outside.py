"""What is outside the decoder layers is filled first: hidden states start there."""

from typing import cast

from torch import Tensor, nn

from quant.cache.layers import CachedLayers
from quant.layers.embedding_and_head import (
    load_embedding_and_head,
    quantize_embedding_and_head,
    set_embedding_and_head,
)
from quant.layers.head_inputs import head_statistics
from quant.layers.outside_layers import fill_outer
from quant.layers.walk import load_finite
from quant.machine.resources import Resources
from quant.protocols import CausalLM, WeightSource
from quant.scheme import Scheme


def fill_outside(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor | None,
    cached: CachedLayers | None,
    resources: Resources,
) -> None:
    """Fills what is outside the layers: the embedding and the head, other matrices, the last
    norm."""
    if scheme.name == "none":
        load_embedding_and_head(model, weights)
    else:
        ends = None if cached is None else cached.load_embedding_and_head()
        if ends is None:
            statistics = None
            if scheme.calibrates_head and calibration is not None:
                statistics = head_statistics(model, scheme, weights, calibration, resources.device)
            ends = quantize_embedding_and_head(model, scheme, weights, statistics)
            if cached is not None:
                cached.store_embedding_and_head(*ends)
        set_embedding_and_head(model, *ends)
    resources.spill.park(cast(nn.Module, model))
    fill_outer(model, scheme, weights, resources.spill)
    resources.spill.release()
    load_finite(weights, model.model.get_submodule("norm"), "model.norm.")
