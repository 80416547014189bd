"""Our own CPU delegate: one call runs the complete decoder, with the weights used in place."""

from delegates.cpu.lower import LIBRARY, load, lower, take, take_rest
from delegates.cpu.module import load_module, module_part
from delegates.features import Feature
from delegates.limits import Limits, nothing_missing
from delegates.op_list.layout import SIZES, WEIGHT_BITS
from delegates.op_list.lower import file_layout
from delegates.op_list.ops.attention import kept_positions
from delegates.op_list.unfused import why_unfused
from delegates.storage import bytes_as_weights

LIMITS = Limits(
    name="cpu",
    runs_on="x86-64 with AVX2, Arm with dot products, others slowly",
    weight_bits=WEIGHT_BITS,
    dynamic=True,
    missing=nothing_missing,
    checks=LIBRARY.exists,
    supports=frozenset(Feature),
    sizes=SIZES,
    streams_weights=True,
    kept_positions=kept_positions,
    cached_bytes=bytes_as_weights,
    int8_groups=True,
    rotates=True,
)

FLOAT_CONVOLUTIONS = True  # those of PT2E stay in float

__all__ = [
    "FLOAT_CONVOLUTIONS",
    "LIMITS",
    "file_layout",
    "load",
    "load_module",
    "lower",
    "module_part",
    "take",
    "take_rest",
    "why_unfused",
]
