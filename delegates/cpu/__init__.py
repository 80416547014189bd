"""Our own CPU delegate: one call runs the whole decoder, weights used in place."""

from delegates.cpu.lower import LIBRARY, file_layout, load, lower, take, take_rest
from delegates.limits import FLOAT_BITS, FileSizes, Limits, nothing_missing
from delegates.op_list.layout import PAGE_BYTES, weight_bytes

LIMITS = Limits(
    name="cpu",
    runs_on="x86-64 with AVX2, Arm with dot products, others slowly",
    weight_bits=(4, 8, FLOAT_BITS),
    dynamic=True,
    missing=nothing_missing,
    checks=LIBRARY.exists,
    sizes=FileSizes(
        weight_bytes=weight_bytes,
        table_bytes=weight_bytes,
        shares_tied=(4, 8, FLOAT_BITS),
        alignment=PAGE_BYTES,
        rotary_numbers=1,
        layer_bytes=1 << 13,
    ),
)

__all__ = ["LIMITS", "file_layout", "load", "lower", "take", "take_rest"]
