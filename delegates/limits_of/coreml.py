"""Core ML's limits."""

import importlib.util
import platform
import sys

from delegates.features import PLAIN_ATTENTION, Feature
from delegates.limits import Limits, never
from delegates.storage import FLOAT_BITS, FileSizes, StoredAs, float16_bytes


def _missing() -> str | None:
    if importlib.util.find_spec("coremltools"):
        return None
    if sys.platform != "darwin" and platform.machine() != "x86_64":
        return (
            "Apple's coremltools, which the coreml delegate needs, is not made for "
            f"{platform.machine()} Linux: export on x86-64 or on a Mac."
        )
    return "Apple's coremltools is not installed, and the coreml delegate needs it: " + INSTALL


def table_bytes(rows: int, columns: int, type: StoredAs) -> int:
    """Returns the bytes of an embedding: its integers and their float16 scales."""
    groups = -(-columns // type.group_size) if type.group_size else 1
    return rows * (columns * type.bits // 8 + 2 * groups)


def weight_bytes(rows: int, columns: int, type: StoredAs) -> int:
    """Returns the bytes of a linear: as for an embedding, and a bias of zeros."""
    return table_bytes(rows, columns, type) + 2 * rows


INSTALL = "pip install coremltools==9.0"
LIMITS = Limits(
    name="coreml",
    runs_on="iPhone, iPad and Mac, from iOS 18 and macOS 15",
    weight_bits=(4, 8, FLOAT_BITS),
    dynamic=True,
    missing=_missing,
    checks=never,
    supports=PLAIN_ATTENTION | {Feature.EXPERTS, Feature.CONVOLUTIONS},
    cached_bytes=float16_bytes,
    sizes=FileSizes(
        weight_bytes=weight_bytes,
        table_bytes=table_bytes,
        float_bytes=2,
        shares_tied=(4, 8, FLOAT_BITS),
        layer_bytes=1 << 17,
    ),
)
