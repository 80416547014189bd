"""The two ends of a model: the token embedding and the head, the largest tensors it has.

They are read in their stored type a few rows at a time; no float32 copy of either is made.
"""

from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.layers.keep_integers import keep_weight
from quant.layers.walk import load_finite
from quant.machine.device import lent, move
from quant.measure.quality import LogitComparison, Quality
from quant.modules import QuantizedEmbedding, QuantizedLinear, QuantizedWeight, set_weight
from quant.operators import dequantized
from quant.protocols import CausalLM, WeightSource
from quant.rounding.nearest import require_finite, round_weight
from quant.rounding.solve import Statistics, solve
from quant.scheme import EMBEDDING_PART, HEAD_PART, KEEP, Scheme
from quant.weight_type import WeightType

EMBEDDING = "model.embed_tokens.weight"
HEAD, HEAD_BIAS = "lm_head.weight", "lm_head.bias"
HEAD_ROWS = 2048  # that are float at a time: memory this small is reused, not mapped again


def is_tied(model: CausalLM) -> bool:
    """Whether embedding and head are one parameter."""
    return model.lm_head.weight is model.model.get_parameter("embed_tokens.weight")


def load_embedding_and_head(model: CausalLM, weights: WeightSource) -> None:
    """Loads embedding and head as float32; tied ones stay one parameter.

    Raises:
        QuantError: a stored value is not finite.
    """
    tied = is_tied(model)
    embedding = model.model.get_submodule("embed_tokens")
    load_finite(weights, embedding, "model.embed_tokens.")
    if tied:
        model.lm_head.weight = embedding.get_parameter("weight")
    else:
        load_finite(weights, model.lm_head, "lm_head.")


def quantize_embedding_and_head(
    model: CausalLM, scheme: Scheme, weights: WeightSource, statistics: Statistics | None = None
) -> tuple[QuantizedWeight, QuantizedWeight]:
    """Quantizes embedding and head for `set_embedding_and_head`; tied ends are one weight, twice.

    Args:
        statistics: of the head's inputs, for a head of 4 bits by GPTQ, on the device that is to
            solve it; None rounds to nearest, as it always is with an embedding that is not tied.

    Raises:
        QuantError: a stored value is not finite.
    """
    tied = is_tied(model)
    type, head_type = scheme.type_of(EMBEDDING_PART), scheme.type_of(HEAD_PART)
    assert type is not None and head_type is not None
    of_tied = statistics if tied else None
    embedding = _round(weights, scheme, type, EMBEDDING, of_tied)
    weights.release()
    if tied:
        return embedding, embedding
    head = _round(weights, scheme, head_type, HEAD, statistics)
    weights.release()
    return embedding, head


def set_embedding_and_head(
    model: CausalLM, embedding: QuantizedWeight, head: QuantizedWeight
) -> None:
    """Gives a model its quantized ends; if they are one weight, it stays one."""
    hidden_size = model.lm_head.in_features
    model.model.add_module("embed_tokens", QuantizedEmbedding(embedding, hidden_size))
    set_weight(cast(nn.Module, model), "lm_head", head)


def _round(
    weights: WeightSource,
    scheme: Scheme,
    type: WeightType,
    name: str,
    statistics: Statistics | None,
) -> QuantizedWeight:
    if scheme.name == KEEP:
        return keep_weight(weights, name, type, scheme)
    weight = weights.tensor(name)
    if statistics is None or not type.in_groups:
        return round_weight(weight, type, name, scheme.choice)
    values, scales = [], []
    for part in weight.split(HEAD_ROWS):
        rows = part.to(statistics.hessian.device).float()
        require_finite(rows, name)
        chosen = solve(rows, type, scheme.choice, statistics, None)
        values.append(chosen.values.cpu())
        scales.append(chosen.scales.cpu())
    return QuantizedWeight(torch.cat(values), torch.cat(scales), type)


def embed_float(model: CausalLM, weights: WeightSource, tokens: Tensor) -> Tensor:
    """The float model's hidden states of a few tokens (windows, seq_len), from the stored table."""
    return model.scale_embedding(weights.tensor(EMBEDDING)[tokens].float())


def load_head_bias(model: CausalLM, weights: WeightSource) -> None:
    """Loads what the head adds to logits, if it has a bias, as float32."""
    if model.lm_head.bias is not None:
        bias = weights.tensor(HEAD_BIAS).float()
        require_finite(bias, HEAD_BIAS)
        model.lm_head.register_parameter("bias", nn.Parameter(bias, requires_grad=False))


def head_bias(model: CausalLM, rows: slice, device: torch.device) -> Tensor | None:
    """Returns what the head adds to some logits; None: it has no bias."""
    bias: Tensor | None = model.lm_head.bias
    return None if bias is None else bias[rows].to(device)


def compare_heads(
    model: CausalLM,
    weights: WeightSource,
    tied: bool,
    reference: Tensor,
    hidden: Tensor,
    targets: Tensor,
    advance: Callable[[int], None] = lambda _: None,
) -> Quality:
    """Compares the logits of two streams of hidden states, a slice of the vocabulary at a time.

    Args:
        model: with its head and final norm in place.
        tied: whether the float head is the stored embedding.
        reference: float32 (positions, hidden_size) after the float layers, on any device.
        hidden: the same after the model's own layers.
        targets: int64 (positions,), the tokens that came next.
        advance: is given the numbers of each part of the head that has been compared.
    """
    norm, device = model.model.get_submodule("norm"), hidden.device
    stored = weights.tensor(EMBEDDING if tied else HEAD)
    comparison = LogitComparison(targets)
    with lent(norm, device):
        reference = norm(reference)
        for rows, logits in _head_slices(model, hidden):
            weight, bias = stored[rows].to(device).float(), head_bias(model, rows, device)
            expected = F.linear(reference, weight, bias)
            comparison.add(model.finish_logits(expected), logits)
            advance((rows.stop - rows.start) * model.lm_head.in_features)
    weights.release()
    return comparison.result()


def head_logits(model: CausalLM, hidden: Tensor) -> Tensor:
    """Returns the logits of the model's own head, without dequantizing all of it at once.

    Args:
        hidden: float32 (..., hidden_size) after the last layer.

    Returns:
        float32 (..., vocab_size).
    """
    # Filled in place: results kept between the slices' large temporaries would pin those.
    out = hidden.new_empty(*hidden.shape[:-1], model.lm_head.out_features)
    for rows, logits in _head_slices(model, hidden):
        out[..., rows] = logits
    return out


def _head_slices(model: CausalLM, hidden: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The logits of hidden states, some rows of the head at a time."""
    head = model.lm_head
    hidden = model.model.get_submodule("norm")(hidden)
    if isinstance(head, QuantizedLinear):
        hidden = head.rounded(hidden)  # once for all rows
    for start in range(0, head.out_features, HEAD_ROWS):
        rows = slice(start, min(start + HEAD_ROWS, head.out_features))
        if isinstance(head, QuantizedLinear):
            part = head.of_rows(rows)
            move(part, hidden.device)
            logits = F.linear(hidden, dequantized(part.values, part.scales), part.bias)
        else:
            bias = head_bias(model, rows, hidden.device)
            logits = F.linear(hidden, head.weight[rows].to(hidden.device), bias)
        yield rows, model.finish_logits(logits)
