"""The two ends of a model: the token embedding and the head, the largest tensors it has.

They are read in their stored type a few rows at a time; no float32 copy of either is made.
"""

from collections.abc import Iterator
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from quant.modules import PaddedLinear, QuantizedEmbedding, QuantizedWeight, set_weight
from quant.protocols import CausalLM, WeightSource
from quant.quality import LogitComparison, Quality
from quant.rounding import round_int4, round_int8
from quant.scheme import EMBEDDING_PART, HEAD_PART, Scheme

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_HEAD_ROWS = 2048  # that are float at a time: memory this small is used again, not mapped anew


def is_tied(model: CausalLM) -> bool:
    """Whether embedding and head are one parameter."""
    return model.lm_head.weight is model.model.get_parameter("embed_tokens.weight")


def load_ends(model: CausalLM, weights: WeightSource) -> None:
    """Loads embedding and head as float32; tied ones stay one parameter."""
    tied = is_tied(model)
    embedding = model.model.get_submodule("embed_tokens")
    weights.load_into(embedding, "model.embed_tokens.")
    if tied:
        model.lm_head.weight = embedding.get_parameter("weight")
    else:
        weights.load_into(model.lm_head, "lm_head.")


def quantize_ends(model: CausalLM, scheme: Scheme, weights: WeightSource) -> None:
    """Rounds embedding and head; tied ones share their integers and scales.

    Raises:
        QuantError: a stored value is not finite.
    """
    tied = is_tied(model)
    bits = scheme.bits_of(EMBEDDING_PART)
    embedding = _round(weights.tensor(EMBEDDING), scheme, bits, EMBEDDING)
    hidden_size = model.lm_head.in_features
    model.model.add_module("embed_tokens", QuantizedEmbedding(embedding, hidden_size))
    weights.release()
    if tied:
        head = embedding
    else:
        head = _round(weights.tensor(HEAD), scheme, scheme.bits_of(HEAD_PART), HEAD)
    set_weight(cast(nn.Module, model), "lm_head", head)
    weights.release()


def _round(weight: Tensor, scheme: Scheme, bits: int, name: str) -> QuantizedWeight:
    if bits == 4:
        return round_int4(weight, scheme.group_size, name, scheme.choice)
    return round_int8(weight, name)


def embed_float(weights: WeightSource, tokens: Tensor) -> Tensor:
    """The float embedding of a few tokens (windows, seq_len), from the stored table."""
    return weights.tensor(EMBEDDING)[tokens].float()


def compare_heads(
    model: CausalLM,
    weights: WeightSource,
    tied: bool,
    reference: Tensor,
    hidden: Tensor,
    targets: Tensor,
) -> Quality:
    """Compares the logits of two streams of hidden states, a slice of the vocabulary at a time.

    Args:
        model: with its head and final norm in place.
        tied: whether the float head is the stored embedding.
        reference: float32 (positions, hidden_size) after the float layers.
        hidden: the same after the model's own layers.
        targets: int64 (positions,), the tokens that came next.
    """
    norm = model.model.get_submodule("norm")
    reference = norm(reference)
    stored = weights.tensor(EMBEDDING if tied else HEAD)
    comparison = LogitComparison(targets)
    for rows, logits in _head_slices(model, hidden):
        comparison.add(F.linear(reference, stored[rows].float()), logits)
    weights.release()
    return comparison.result()


def head_logits(model: CausalLM, hidden: Tensor) -> Tensor:
    """What the model's own head gives, without ever dequantizing all of it.

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
    if isinstance(head, PaddedLinear):
        hidden = F.pad(hidden, (0, head.padding))
    for start in range(0, head.out_features, _HEAD_ROWS):
        rows = slice(start, min(start + _HEAD_ROWS, head.out_features))
        yield rows, F.linear(hidden, head.weight[rows])
