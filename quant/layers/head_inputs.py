"""The two ends, quantized: of 4 bits, GPTQ rounds them by the head's inputs."""

from dataclasses import replace

import torch
from torch import Tensor

from quant.cache.layers import CachedLayers
from quant.layers.embedding_and_head import (
    embed_float,
    is_tied,
    quantize_embedding_and_head,
    set_embedding_and_head,
)
from quant.layers.stream import States, contexts_on
from quant.layers.walk import float_walk, load_finite
from quant.machine.device import HOST, move
from quant.protocols import CausalLM, WeightSource
from quant.rounding.gptq import gram, hessian_of, inverse_factor
from quant.rounding.solve import Statistics, runtime_inputs_of
from quant.scheme import Scheme

MOST_TOKENS = 4096
WINDOWS_TOGETHER = 4
_DAMP_PERCENT = 1.0
_DAMP_PERCENT_TIED = 50.0


def head_damp_percent(tied: bool) -> float:
    """Returns what is added to the Hessian's diagonal, in percent of its mean."""
    return _DAMP_PERCENT_TIED if tied else _DAMP_PERCENT


def fill_ends(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor | None,
    cached: CachedLayers | None,
    device: torch.device,
) -> None:
    """Gives a model its quantized embedding and head."""
    ends = None if cached is None else cached.load_embedding_and_head()
    if ends is None:
        statistics = None
        if scheme.calibrates_head and calibration is not None:
            statistics = head_statistics(model, scheme, weights, calibration, device)
        ends = quantize_embedding_and_head(model, scheme, weights, statistics)
        if cached is not None:
            cached.store_embedding_and_head(*ends)
    set_embedding_and_head(model, *ends)


@torch.no_grad()
def head_statistics(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor,
    device: torch.device = HOST,
) -> Statistics:
    """The statistics of the head's inputs in the float model, on some of the calibration text.

    If the ends are tied, the same integers are also the embedding, in which an error costs the same
    in every direction. Their Hessian is the sum of both: the head's and a multiple of the identity,
    which is what damping adds.

    Args:
        model: with its layers on the meta device, where they are left.
        calibration: int64 (windows, seq_len).
        device: what computes, and where the statistics are.
    """
    count = max(1, MOST_TOKENS // calibration.shape[1])
    tokens = calibration[:: -(-len(calibration) // count)]
    hidden = embed_float(model, weights, tokens).to(device)
    contexts = contexts_on(device, model, tokens.shape[1], weights)
    states = States(hidden, contexts, tokens, WINDOWS_TOGETHER)
    for stop in float_walk(model, weights, device):
        states.advance(stop.layer)
    norm = model.model.get_submodule("norm")
    load_finite(weights, norm, "model.norm.")
    move(norm, device)
    inputs_of = runtime_inputs_of(replace(scheme.choice, rotation="none"))
    columns = hidden.shape[-1] + -hidden.shape[-1] % scheme.largest_group
    inputs = (inputs_of(norm(x)).floats() for x in hidden.split(WINDOWS_TOGETHER))
    hessian = hessian_of(gram(inputs, columns, device), tokens.numel())
    factor = inverse_factor(hessian, head_damp_percent(is_tied(model)), scheme.choice.act_order)
    importance = torch.where(hessian.diagonal() == 0, 0.0, 1 / factor.inverse_diagonal())
    return Statistics(hessian, factor, importance, None, None, tokens.numel())
