"""With what a quantization works, none of which changes its result."""

from dataclasses import dataclass, field

from quant.cache import Cache
from quant.ranks import ALONE, Ranks
from quant.speed import Speed
from quant.spill import IN_MEMORY, Spill


@dataclass(frozen=True)
class Means:
    """
    Attributes:
        cache: where finished layers are kept and found; None makes everything anew.
        name: what to call the model in the cache's listing.
        spill: where hidden states and finished layers lie meanwhile.
        ranks: the processes that share the work; quality is measured by the first of them.
        speed: is told how fast it went.
    """

    cache: Cache | None = None
    name: str = "a model"
    spill: Spill = IN_MEMORY
    ranks: Ranks = ALONE
    speed: Speed = field(default_factory=Speed)


PLAIN = Means()
