"""Rotary position embedding (Su et al., 2021): its tables and its application."""

import math

import torch
from torch import Tensor

from exporter.models.spec import RopeScaling, RotarySpec

Rope = tuple[Tensor, Tensor]  # cosines, signed sines: (seq_len, 1, head_dim)


def rope_table(spec: RotarySpec, length: int) -> Rope:
    """Returns cosines and sines of positions 0 .. length - 1, each float32 (length, 1, head_dim).

    The halves are split as in Hugging Face checkpoints. The sines of the first half are already
    negated, so that `apply_rope` needs no negation.
    """
    pairs = torch.arange(0, spec.head_dim, 2, dtype=torch.float32)
    freqs = 1.0 / spec.theta ** (pairs / spec.head_dim)  # (head_dim / 2)
    if spec.scaling is not None:
        freqs = _scale_frequencies(freqs, spec.scaling)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), freqs).unsqueeze(1)
    cos, sin = angles.cos(), angles.sin()  # (length, 1, head_dim / 2)
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def _scale_frequencies(freqs: Tensor, scaling: RopeScaling) -> Tensor:
    """Applies Llama 3.1's scaling: long wavelengths by `factor`, short ones not, smooth between."""
    if scaling.rope_type == "linear":
        return freqs / scaling.factor
    turns = scaling.original_max_position_embeddings * freqs / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    keep = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return freqs * (keep + (1 - keep) / scaling.factor)


def apply_rope(x: Tensor, rope: Rope) -> Tensor:
    """Rotates x (batch, seq_len, heads, head_dim) by the angles of its positions."""
    cos, sin = rope
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((second, first), dim=-1) * sin
