"""The distance of a tensor from its reference, and of logits from logits."""

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Distance:
    """
    Attributes:
        signal: sum of the squares of the reference.
        noise: sum of the squares of the difference.
        max_error: largest absolute difference.
        finite: whether every number of the other tensor is finite.
    """

    signal: float
    noise: float
    max_error: float
    finite: bool = True

    @property
    def relative(self) -> float:
        """Root of noise over signal; infinite without a signal, or if a number is not finite."""
        if not self.finite:
            return math.inf
        if self.noise == 0:
            return 0.0
        return math.sqrt(self.noise / self.signal) if self.signal else math.inf

    @property
    def snr_db(self) -> float:
        """Signal-to-noise ratio in decibels; infinite if nothing differs."""
        relative = self.relative
        if relative == 0:
            return math.inf
        return -20 * math.log10(relative) if relative < math.inf else -math.inf

    def to_dict(self) -> dict[str, float | None]:
        """For JSON, which has no infinities: an SNR of null means no difference at all, an error of
        null one that is not finite."""
        snr, finite = self.snr_db, math.isfinite(self.max_error)
        return {
            "snr_db": snr if math.isfinite(snr) else None,
            "max_error": self.max_error if finite else None,
            "relative_error": self.relative if math.isfinite(self.relative) else None,
        }


def distance(reference: Tensor, other: Tensor) -> Distance:
    """Of two float tensors with as many numbers."""
    want, have = reference.double().flatten(), other.double().flatten()
    difference = have - want
    finite = bool(have.isfinite().all())
    largest = difference.abs().max().item() if difference.numel() else 0.0
    return Distance(
        want.square().sum().item(),
        difference.square().sum().item(),
        largest if finite else math.inf,
        finite,
    )


@dataclass(frozen=True)
class LogitDistance:
    """
    Attributes:
        positions: logit vectors compared.
        kl: mean KL(reference || other), nats.
        top1: share of positions with the same most likely token.
    """

    positions: int
    kl: float
    top1: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def logit_distance(reference: Tensor, other: Tensor) -> LogitDistance:
    """Of logits (positions, vocab_size)."""
    want, have = (logits.double().log_softmax(-1) for logits in (reference, other))
    kl = (want.exp() * (want - have)).sum(-1).mean().clamp(min=0).item()
    same = reference.argmax(-1) == other.argmax(-1)
    return LogitDistance(len(reference), kl, same.double().mean().item())


def median(numbers: list[float]) -> float:
    """The middle one; 0 of none."""
    return torch.tensor(numbers, dtype=torch.float64).median().item() if numbers else 0.0
