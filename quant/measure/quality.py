"""How much a quantized model differs from its float original, on the same tokens.

Everything is per token and in nats. The logits of a vocabulary are never all held: they come in
slices with the running maxima and sums of an online softmax (Milakov and Gimelshein, 2018), so
that the head of a large model needs neither its float weights nor all its logits at once.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

_SLICE = 4096  # vocabulary entries at a time
_LARGEST_LOSS = 600.0


@dataclass(frozen=True)
class Quality:
    """Measured on `tokens` predictions; each figure with its standard error.

    Attributes:
        perplexity_float: exp of the float model's mean negative log likelihood.
        perplexity_quantized: the quantized model's.
        kl: mean KL(float || quantized) of the next token's distribution.
        top1: share of positions where both models rank the same token first.
    """

    tokens: int
    perplexity_float: float
    perplexity_float_error: float
    perplexity_quantized: float
    perplexity_quantized_error: float
    kl: float
    kl_error: float
    top1: float
    top1_error: float

    def to_dict(self) -> dict[str, float | int]:
        return asdict(self)


def compare_logits(reference: Tensor, other: Tensor, targets: Tensor) -> Quality:
    """Compares two models' logits.

    Args:
        reference: (..., vocab_size), the float model's.
        other: the same shape, the quantized model's.
        targets: int64 (...), the tokens that came next.
    """
    return summarize([compare_positions(reference, other, targets)])


def compare_positions(reference: Tensor, other: Tensor, targets: Tensor) -> "Positions":
    """The same, position by position."""
    vocab_size = reference.shape[-1]
    reference, other = reference.reshape(-1, vocab_size), other.reshape(-1, vocab_size)
    comparison = LogitComparison(targets.reshape(-1))
    for start in range(0, vocab_size, _SLICE):
        comparison.add(reference[:, start : start + _SLICE], other[:, start : start + _SLICE])
    return comparison.positions()


class LogitComparison:
    """Compares logits that arrive in slices of the vocabulary, in order."""

    def __init__(self, targets: Tensor) -> None:
        """targets: int64 (positions,), the tokens that came next."""
        self._targets = targets
        self._start = 0
        self._reference = _OnlineSoftmax(targets)
        self._other = _OnlineSoftmax(targets)
        # The sum of exp(reference) (reference - other).
        self._weighted_gap = torch.zeros(len(targets), device=targets.device)

    def add(self, reference: Tensor, other: Tensor) -> None:
        """Takes the next slice: both (positions, width), float32."""
        weights, shrink = self._reference.add(reference, self._start)
        self._other.add(other, self._start)
        gap = weights.mul_(reference - other).sum(dim=1)
        self._weighted_gap = self._weighted_gap * shrink + gap
        self._start += reference.shape[1]

    def positions(self) -> "Positions":
        """The figures of each position, once the whole vocabulary has been added."""
        reference, other = self._reference, self._other
        gap = self._weighted_gap.double() / reference.total.double()
        kl = gap - reference.log_total() + other.log_total()
        return Positions(
            loss_float=reference.log_total() - reference.target,
            loss=other.log_total() - other.target,
            kl=kl.clamp_min(0),
            same=(reference.best == other.best).double(),
        )

    def result(self) -> Quality:
        """The figures of all positions together."""
        return summarize([self.positions()])


@dataclass(frozen=True)
class Positions:
    """Figures of single predictions, float64 (positions,) each.

    Attributes:
        loss_float, loss: negative log likelihood of the next token, of either model.
        kl: KL(float || quantized).
        same: 1 where both rank the same token first, else 0.
    """

    loss_float: Tensor
    loss: Tensor
    kl: Tensor
    same: Tensor


def summarize(parts: Sequence[Positions]) -> Quality:
    """The figures of several stretches of text together."""
    float_loss, float_error = mean_and_error(torch.cat([part.loss_float for part in parts]))
    loss, loss_error = mean_and_error(torch.cat([part.loss for part in parts]))
    kl, kl_error = mean_and_error(torch.cat([part.kl for part in parts]))
    top1, top1_error = mean_and_error(torch.cat([part.same for part in parts]))
    return Quality(
        tokens=sum(len(part.loss) for part in parts),
        perplexity_float=_exp(float_loss),
        perplexity_float_error=_exp(float_loss) * float_error,
        perplexity_quantized=_exp(loss),
        perplexity_quantized_error=_exp(loss) * loss_error,
        kl=kl,
        kl_error=kl_error,
        top1=top1,
        top1_error=top1_error,
    )


class _OnlineSoftmax:
    """Running maximum, sum of exponentials, arg max and target logit of each position."""

    def __init__(self, targets: Tensor) -> None:
        self._targets = targets
        self.largest = torch.full_like(targets, -torch.inf, dtype=torch.float32)
        self.total = torch.zeros_like(self.largest)  # of exp(logit - largest)
        self.best = torch.zeros_like(targets)
        self.target = torch.zeros_like(targets, dtype=torch.float64)

    def add(self, logits: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Returns exp(logits - largest), and what earlier sums of such have to shrink by."""
        slice_largest, slice_best = logits.max(dim=1)
        self.best = torch.where(slice_largest > self.largest, slice_best + start, self.best)
        largest = torch.maximum(self.largest, slice_largest)
        shrink = (self.largest - largest).exp()
        weights = (logits - largest.unsqueeze(1)).exp_()
        self.largest, self.total = largest, self.total * shrink + weights.sum(dim=1)
        here = (self._targets >= start) & (self._targets < start + logits.shape[1])
        self.target[here] = logits[here, self._targets[here] - start].double()
        return weights, shrink

    def log_total(self) -> Tensor:
        """The logarithm of the sum of exponentials, float64."""
        return self.total.double().log() + self.largest.double()


def _exp(loss: float) -> float:
    """exp, limited so that the perplexity of a broken model is finite."""
    return math.exp(min(loss, _LARGEST_LOSS))


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Mean and its standard error, positions taken as independent."""
    count = len(values)
    error = values.std().item() / math.sqrt(count) if count > 1 else 0.0
    return values.mean().item(), error
