"""XNNPACK's limits."""

from delegates.features import Feature
from delegates.limits import Limits, always, nothing_missing
from delegates.storage import FLOAT_BITS

LIMITS = Limits(
    name="xnnpack",
    runs_on="any processor that ExecuTorch runs on",
    weight_bits=(4, 8, FLOAT_BITS),
    dynamic=True,
    missing=nothing_missing,
    checks=always,
    supports=frozenset(
        {
            Feature.WINDOWS,
            Feature.SHARED_CACHES,
            Feature.EXPERTS,
            Feature.CONVOLUTIONS,
            Feature.OTHER_STEPS,
        }
    ),
)
