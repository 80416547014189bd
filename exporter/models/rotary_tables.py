"""Rotary position embedding (Su et al., 2021): its tables and its application."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from exporter.models.rotary_spec import (
    LinearScaling,
    ListedScaling,
    Llama3Scaling,
    RopeScaling,
    RotarySpec,
    YarnScaling,
)

Rope = tuple[Tensor, Tensor]  # cosines, signed sines: (seq_len, 1, head_dim)


def rope_table(spec: RotarySpec, length: int) -> Rope:
    """Returns cosines and sines of positions 0 .. length - 1, each float32 (length, 1, head_dim).

    The halves are split as in Hugging Face checkpoints. The sines of the first half are already
    negated, so that `apply_rope` needs no negation. Pairs that do not rotate have cosine 1.
    """
    spec = spec.for_context(length)
    pairs = torch.arange(0, spec.rotated, 2, dtype=torch.float32)
    over = spec.head_dim if spec.proportional else spec.rotated
    freqs = 1.0 / spec.theta ** (pairs / over)  # (rotated / 2)
    freqs, magnitude = _scaled(freqs, spec)
    positions = torch.arange(length, dtype=torch.float32)
    angles = torch.outer(positions, freqs).unsqueeze(1)
    cos, sin = angles.cos(), angles.sin()  # (length, 1, rotated / 2)
    if magnitude != 1.0:
        cos, sin = cos * magnitude, sin * magnitude
    still = (0, (spec.head_dim - spec.rotated) // 2)
    cos, sin = F.pad(cos, still, value=1.0), F.pad(sin, still)  # (length, 1, head_dim / 2)
    if spec.growth is not None:
        turns = torch.floor(positions / spec.growth.length)
        growth = (1 + spec.growth.beta * torch.log(1 + turns))[:, None, None]
        cos, sin = cos * growth, sin * growth
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def both_rope_tables(spec: RotarySpec, original: int, length: int) -> Rope:
    """Returns the rows for texts of up to `original` tokens, then those for texts of up to
    `length`, which is more: each float32 (original + length, 1, head_dim)."""
    tables = rope_table(spec, original), rope_table(spec, length)
    cosines, sines = (torch.cat(rows) for rows in zip(*tables, strict=True))
    return cosines, sines


def _scaled(freqs: Tensor, spec: RotarySpec) -> tuple[Tensor, float]:
    """Returns the scaled frequencies, and the factor on cosines and sines."""
    scaling: RopeScaling | None = spec.scaling
    match scaling:
        case LinearScaling(factor):
            return freqs / factor, 1.0
        case Llama3Scaling():
            return _llama3(freqs, scaling), 1.0
        case YarnScaling():
            return _yarn(freqs, scaling, spec), scaling.magnitude
        case ListedScaling(factors, magnitude):
            return freqs / torch.tensor(factors), magnitude
    return freqs, 1.0


def _llama3(freqs: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Applies Llama 3.1's scaling: long wavelengths by `factor`, short ones not, smooth between."""
    turns = scaling.original_max_position_embeddings * freqs / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    keep = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return freqs * (keep + (1 - keep) / scaling.factor)


def _yarn(freqs: Tensor, scaling: YarnScaling, spec: RotarySpec) -> Tensor:
    """Applies YaRN's scaling: a ramp over the pairs, from unchanged to divided by `factor`."""

    def pair(turns: float) -> float:
        """Returns the fractional pair that rotates so many times in the original context."""
        wavelength = scaling.original_max_position_embeddings / turns
        return spec.rotated * math.log(wavelength / (2 * math.pi)) / (2 * math.log(spec.theta))

    first, last = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, spec.rotated - 1)
    last = first + 0.001 if last == first else last  # a step
    ramp = ((torch.arange(len(freqs)) - first) / (last - first)).clamp(0, 1)
    return freqs * (1 - ramp) + freqs / scaling.factor * ramp


def apply_rope(x: Tensor, rope: Rope) -> Tensor:
    """Rotates x (batch, seq_len, heads, head_dim) by the angles of its positions."""
    cos, sin = rope
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((second, first), dim=-1) * sin
