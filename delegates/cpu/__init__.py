"""Our own CPU delegate: one call runs the complete decoder, with the weights used in place."""

from delegates.cpu.lower import LIBRARY, load, lower, take, take_rest
from delegates.limits import Limits, bytes_as_weights, nothing_missing
from delegates.op_list.layout import SIZES, WEIGHT_BITS
from delegates.op_list.lower import file_layout
from delegates.op_list.ops.attention import kept_positions
from delegates.op_list.unfused import why_unfused

LIMITS = Limits(
    name="cpu",
    runs_on="x86-64 with AVX2, Arm with dot products, others slowly",
    weight_bits=WEIGHT_BITS,
    dynamic=True,
    missing=nothing_missing,
    checks=LIBRARY.exists,
    sizes=SIZES,
    adapters=True,
    streams_weights=True,
    kept_positions=kept_positions,
    cached_bytes=bytes_as_weights,
    float16_groups=True,
    int8_groups=True,
    rotates=True,
    convolutions=True,
    experts=True,
    delta_rules=True,
    shared_caches=True,
    least_context=3,
)

__all__ = ["LIMITS", "file_layout", "load", "lower", "take", "take_rest", "why_unfused"]
