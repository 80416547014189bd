"""Rotary parameters of configs: those that tests name, and others at random."""

import random
from typing import Any


def rope(rope_type: str, theta: float = 1e4, **parameters: Any) -> dict[str, Any]:
    """A config's rotary parameters."""
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": theta, **parameters}}


LLAMA3 = rope(
    "llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
YARN = rope("yarn", 1e3, factor=4.0, original_max_position_embeddings=16)
PROPORTIONAL = rope("proportional", 1e4, partial_rotary_factor=0.5, factor=2.0)


def longrope(pairs: int, **parameters: Any) -> dict[str, Any]:
    """Another stretch of each pair, and another one past the original context."""
    short = [1.0 + 0.1 * pair for pair in range(pairs)]
    long = [1.5 + 0.7 * pair for pair in range(pairs)]
    return rope("longrope", short_factor=short, long_factor=long, **parameters)


def by_kind(full: dict[str, Any], sliding: dict[str, Any]) -> dict[str, Any]:
    """Rotary parameters for each kind of layer."""
    kinds = {"full_attention": full, "sliding_attention": sliding}
    return {"rope_parameters": {kind: one["rope_parameters"] for kind, one in kinds.items()}}


def drawn_rope(draw: random.Random, head_dim: int) -> dict[str, Any]:
    """Those of any type, for heads of which so many numbers rotate."""
    theta = draw.choice([1e2, 1e4, 1e6])
    original = {"original_max_position_embeddings": draw.choice([8, 16, 48])}
    factor = {"factor": draw.choice([1.0, 2.0, 6.5])}
    return draw.choice(
        [
            rope("default", theta),
            rope("linear", theta, **factor),
            rope("dynamic", theta, **factor),
            rope("llama3", theta, low_freq_factor=1.0, high_freq_factor=3.0, **factor, **original),
            rope("yarn", theta, **factor, **original),
            rope("yarn", theta, **factor, **original, beta_fast=8.0, beta_slow=2.0),
            rope("yarn", theta, **factor, **original, mscale=0.7, mscale_all_dim=1.2),
            rope("yarn", theta, **factor, **original, attention_factor=1.4),
            longrope(head_dim // 2, **factor, **original),
        ]
    )


def drawn_by_kind(draw: random.Random, head_dim: int) -> dict[str, Any]:
    """The same for each kind of layer."""
    return by_kind(drawn_rope(draw, head_dim), drawn_rope(draw, head_dim))
