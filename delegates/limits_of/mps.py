"""The limits of the delegate for Apple's GPUs."""

from delegates.features import Feature
from delegates.limits import Limits, never, nothing_missing
from delegates.op_list.layout import SIZES, WEIGHT_BITS
from delegates.op_list.ring import kept_positions
from delegates.storage import bytes_without_int8

LIMITS = Limits(
    name="mps",
    runs_on="Macs with Apple silicon, and iPhones and iPads, on their GPU",
    weight_bits=WEIGHT_BITS,
    dynamic=True,
    missing=nothing_missing,
    checks=never,
    supports=frozenset({Feature.WINDOWS, Feature.FLOAT16_GROUPS}),
    sizes=SIZES,
    kept_positions=kept_positions,
    cached_bytes=bytes_without_int8,
    int8_groups=True,
    rotates=True,
)
