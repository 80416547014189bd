"""Vulkan's limits."""

from delegates.features import Feature
from delegates.limits import Limits, never, nothing_missing
from delegates.storage import FLOAT_BITS, FileSizes, StoredAs


def weight_bytes(rows: int, columns: int, type: StoredAs) -> int:
    """Returns the bytes of a matrix: int4 with a float32 scale and an int32 sum for each group,
    int8 with a scale for each row."""
    if not type.group_size:
        return rows * (columns + 4)
    return rows * -(-columns // type.group_size) * (type.group_size // 2 + 8)


LIMITS = Limits(
    name="vulkan",
    runs_on="Android phones whose GPU has Vulkan 1.1",
    weight_bits=(4, FLOAT_BITS),  # its 8-bit linears need activations of a fixed range
    dynamic=True,
    missing=nothing_missing,
    checks=never,
    supports=frozenset({Feature.OTHER_STEPS}),
    sizes=FileSizes(weight_bytes=weight_bytes, shares_tied=(FLOAT_BITS,)),
    hidden_multiple=4,
)
