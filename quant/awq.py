"""AWQ (Lin, Tang, Tang, Yang, Chen, Wang, Xiao, Dang, Gan, Han, 2023), as a baseline.

A linear's input channels that carry large activations are made finer by scaling them up before
rounding, W' = Q(W diag(s)), and their inputs down by the same, which the norm or the linear before
takes over: nothing is left of it at run time. s = m^alpha for the channels' mean magnitude m; alpha
is the one of 20 from 0 to 1 with the least output error |X W^T - (X / s) W'^T|^2. Scales of groups
are then searched, weighted by the inputs' mean squares, and everything is rounded to nearest.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.gptq_layer import Streams
from quant.layer import Done, input_of, weight_of
from quant.modules import set_weight
from quant.protocols import Rope
from quant.rounding import closed_scales, round_int4, round_int8
from quant.scales import round_to_scales
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


def awq_layer(
    layer: nn.Module, scheme: Scheme, name: str, rope: Rope, streams: Streams, done: Done
) -> None:
    """Scales, rounds and passes a layer; the streams go through it in place."""
    attention, mlp = layer.get_submodule("self_attn"), layer.get_submodule("mlp")
    norms = layer.get_submodule("input_layernorm"), layer.get_submodule("post_attention_layernorm")
    hidden = list(streams.hidden)

    inputs = [norms[0](x) for x in hidden]
    squares = {}
    squares["qkv"] = _rescale(attention, ("q_proj", "k_proj", "v_proj"), norms[0], inputs, scheme)
    inputs = [norms[0](x) for x in hidden]
    inputs = [input_of(attention, "o_proj", x, rope) for x in inputs]
    same_width = weight_of(attention, "v_proj").shape[0] == weight_of(attention, "o_proj").shape[1]
    before = attention.get_submodule("v_proj") if same_width else None  # else heads share values
    squares["o"] = _rescale(attention, ("o_proj",), before, inputs, scheme)
    after = [x + attention(norms[0](x), rope) for x in hidden]

    inputs = [norms[1](x) for x in after]
    squares["gate_up"] = _rescale(mlp, ("gate_proj", "up_proj"), norms[1], inputs, scheme)
    inputs = [input_of(mlp, "down_proj", norms[1](x)) for x in after]
    squares["down"] = _rescale(mlp, ("down_proj",), mlp.get_submodule("up_proj"), inputs, scheme)

    for block, group, linears in (
        (attention, "qkv", ("q_proj", "k_proj", "v_proj")),
        (attention, "o", ("o_proj",)),
        (mlp, "gate_up", ("gate_proj", "up_proj")),
        (mlp, "down", ("down_proj",)),
    ):
        for linear in linears:
            full_name = f"{name}.{'self_attn' if block is attention else 'mlp'}.{linear}"
            weight = weight_of(block, linear)
            padding = -weight.shape[1] % scheme.group_size
            importance = F.pad(squares[group], (0, padding))
            if scheme.bits_of(full_name) == 8:
                quantized = round_int8(weight, full_name)
            else:
                quantized = round_int4(
                    weight, scheme.group_size, full_name, scheme.choice, importance
                )
            set_weight(block, linear, quantized)
            done(full_name, weight.numel())
    streams.hidden.advance(layer, rope)


def _rescale(
    block: nn.Module,
    linears: Sequence[str],
    before: nn.Module | None,
    inputs: Sequence[Tensor],
    scheme: Scheme,
) -> Tensor:
    """Scales linears up and what makes their input down; returns the inputs' mean squares."""
    x = torch.cat([part.flatten(0, -2) for part in inputs])  # (tokens, columns)
    squares = x.square().mean(dim=0)
    if before is None:
        return squares
    weights = [weight_of(block, linear) for linear in linears]
    scale = awq_scale(weights, x, scheme.group_size)
    for weight in weights:
        weight.mul_(scale)
    maker = before.get_parameter("weight")
    maker.div_(scale if maker.dim() == 1 else scale.unsqueeze(1))
    bias = getattr(before, "bias", None)
    if bias is not None:
        bias.div_(scale)
    return squares / scale.square()


def _rounded(weight: Tensor, group_size: int) -> Tensor:
    """A weight (rows, columns) rounded at scales in closed form, and back."""
    padding = -weight.shape[1] % group_size
    padded = F.pad(weight, (0, padding)) if padding else weight
    scales = closed_scales(padded, group_size).product()
    values = round_to_scales(padded, scales, group_size)
    rounded = (values.unflatten(1, (-1, group_size)) * scales.unsqueeze(2)).flatten(1)
    return rounded[:, : weight.shape[1]]
