"""Rotary position embedding as data: the tables that layers use, and how frequencies are scaled.

Some tables depend on the length of the context. An export knows it, and `for_context` fixes them;
or a file keeps both tables of LongRoPE, and each text uses that of its own length.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class LinearScaling:
    """Every frequency divided by `factor` (Chen et al., 2023)."""

    factor: float


@dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3.1's scaling: long wavelengths by `factor`, short ones not, smooth between."""

    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192


@dataclass(frozen=True)
class YarnScaling:
    """YaRN (Peng et al., 2023, section 3.2): frequencies with fewer than `beta_slow` rotations in
    the original context are divided by `factor`, those with more than `beta_fast` are not, with a
    ramp between.

    Attributes:
        truncate: the ramp begins and ends at whole pairs.
        magnitude: a factor on cosines and sines.
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    magnitude: float = 1.0


@dataclass(frozen=True)
class ListedScaling:
    """Each frequency divided by a factor of its own; cosines and sines times `magnitude`."""

    factors: tuple[float, ...]
    magnitude: float = 1.0


@dataclass(frozen=True)
class LongRopeScaling:
    """LongRoPE (Ding et al., 2024): one list of factors for contexts up to the original one,
    another for longer ones."""

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    magnitude: float = 1.0


@dataclass(frozen=True)
class DynamicScaling:
    """A base that grows with the context, once that is longer than `max_position_embeddings`
    (dynamic NTK scaling)."""

    factor: float
    max_position_embeddings: int


RopeScaling = (
    LinearScaling | Llama3Scaling | YarnScaling | ListedScaling | LongRopeScaling | DynamicScaling
)


@dataclass(frozen=True)
class Growth:
    """Rows of position p times 1 + beta * ln(1 + floor(p / length)), as in Llama 4."""

    beta: float
    length: int


@dataclass(frozen=True)
class RotarySpec:
    """A table of rotary position embedding; layers whose tables are equal share one.

    Attributes:
        rotary_dim: how many numbers of a head rotate; None: all. The others are the last ones of
            each half of the head.
        growth: makes all rows grow with their position.
        proportional: frequencies are those of a head that rotates completely, of which the first
            ones are used; checkpoints store such heads like that, too (Gemma 4).
    """

    head_dim: int
    theta: float = 10000.0
    scaling: RopeScaling | None = None
    rotary_dim: int | None = None
    growth: Growth | None = None
    proportional: bool = False

    @property
    def rotated(self) -> int:
        """How many numbers of a head rotate."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def leading(self) -> int:
        """How many numbers rotate at the start of a head as checkpoints store it; all, if these
        have the pairs that do not rotate in their places."""
        return self.head_dim if self.proportional else self.rotated

    def for_context(self, length: int, both: bool = False) -> "RotarySpec":
        """Returns the table for contexts of up to `length`: what depends on the length is fixed,
        what has no effect is removed.

        Args:
            both: LongRoPE's two lists of factors stay where texts of such contexts use both.
        """
        fixed = self
        if self.growth is not None and length <= self.growth.length:
            fixed = replace(fixed, growth=None)
        match self.scaling:
            case LongRopeScaling() as scaling:
                is_long = length > scaling.original_max_position_embeddings
                if both and is_long and scaling.short_factor != scaling.long_factor:
                    return fixed
                factors = scaling.long_factor if is_long else scaling.short_factor
                return replace(fixed, scaling=ListedScaling(factors, scaling.magnitude))
            case DynamicScaling(factor, original):
                stretch = factor * max(length, original) / original - (factor - 1)
                theta = self.theta * stretch ** (self.rotated / (self.rotated - 2))
                return replace(fixed, theta=theta, scaling=None)
        return fixed
