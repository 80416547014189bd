"""With what a quantization works, none of which changes its result."""

from dataclasses import dataclass

from quant.cache import Cache


@dataclass(frozen=True)
class Means:
    """
    Attributes:
        cache: where finished layers are kept and found; None makes everything anew.
        name: what to call the model in the cache's listing.
    """

    cache: Cache | None = None
    name: str = "a model"


PLAIN = Means()
