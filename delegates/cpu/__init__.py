"""Our own CPU delegate: one call runs the whole decoder, weights used in place."""

from delegates.cpu.layout import PAGE_BYTES, weight_bytes
from delegates.cpu.lower import LIBRARY, file_layout, load, lower, take, take_rest
from delegates.limits import FLOAT_BITS, Limits, nothing_missing

LIMITS = Limits(
    name="cpu",
    runs_on="x86-64 with AVX2, Arm with dot products, others slowly",
    weight_bits=(4, 8, FLOAT_BITS),
    dynamic=True,
    missing=nothing_missing,
    checks=LIBRARY.exists,
    weight_bytes=weight_bytes,
    shares_tied=True,
    weight_alignment=PAGE_BYTES,
)

__all__ = ["LIMITS", "file_layout", "load", "lower", "take", "take_rest"]
