"""The resources of a quantization. They do not change its result, except for the last bits, which
differ between kinds of devices."""

from dataclasses import dataclass, field

import torch

from quant.cache.store import Cache
from quant.machine.device import HOST
from quant.machine.ranks import ALONE, Ranks
from quant.machine.speed import Speed
from quant.machine.spill import IN_MEMORY, Spill


@dataclass(frozen=True)
class Resources:
    """
    Attributes:
        cache: where finished layers are kept and found; None: everything is computed.
        name: what to call the model in the cache's listing.
        spill: where hidden states and finished layers are kept meanwhile.
        ranks: the processes that share the work; quality is measured by the first of them.
        speed: records how fast it went.
        device: what computes; the model is in the CPU's memory before and after.
    """

    cache: Cache | None = None
    name: str = "a model"
    spill: Spill = IN_MEMORY
    ranks: Ranks = ALONE
    speed: Speed = field(default_factory=Speed)
    device: torch.device = HOST


DEFAULTS = Resources()
