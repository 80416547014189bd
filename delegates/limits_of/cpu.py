"""Our own CPU delegate's limits."""

from delegates.features import Feature
from delegates.limits import Limits, nothing_missing
from delegates.op_list.layout import FEW_BITS, SIZES, WEIGHT_BITS
from delegates.op_list.ring import kept_positions
from delegates.storage import bytes_as_weights
from runtime.build import BUILD_DIR

LIBRARY = BUILD_DIR / "libthimble_cpu.so"
LIMITS = Limits(
    name="cpu",
    runs_on="x86-64 with AVX2, Arm with dot products, others slowly",
    weight_bits=(*FEW_BITS, *WEIGHT_BITS),
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
    default_context=8192,
)
