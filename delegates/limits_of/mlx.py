"""MLX's limits."""

import importlib.util
import sys
from pathlib import Path

from delegates.features import Feature
from delegates.limits import Limits, never
from delegates.storage import FLOAT_BITS, FileSizes, StoredAs

PACKAGE = "executorch.backends.mlx"
_GROUP_SIZES = (
    128,
    64,
    32,
)  # MLX's group sizes; for a row with one scale, the largest that divides it


def missing() -> str | None:
    """Returns a sentence if this installation of ExecuTorch lacks MLX or its generator, else
    None."""
    if PACKAGE in sys.modules:
        return None
    specification = importlib.util.find_spec(PACKAGE)
    if specification is not None and specification.origin is not None:
        source = Path(specification.origin).parent / "serialization"
        if all((source / name).is_file() for name in ("schema.fbs", "generate.py")):
            return None
    return (
        "This installation of ExecuTorch has no backends/mlx with its schema and generator, and "
        "the mlx delegate needs them: pip install executorch==1.5.1, or choose another --delegate."
    )


def weight_bytes(rows: int, columns: int, type: StoredAs) -> int:
    """Returns the bytes of a matrix: its integers, and a float32 scale for each group."""
    group_size = type.group_size
    if not type.group_size:
        group_size = next((size for size in _GROUP_SIZES if columns % size == 0), columns)
    return rows * -(-columns // group_size) * (group_size * type.bits // 8 + 4)


LIMITS = Limits(
    name="mlx",
    runs_on="Macs with Apple silicon, and iPhones and iPads, on their GPU",
    weight_bits=(4, 8, FLOAT_BITS),
    dynamic=True,
    missing=missing,
    checks=never,
    supports=frozenset({Feature.WINDOWS, Feature.OTHER_STEPS}),
    sizes=FileSizes(
        weight_bytes=weight_bytes, table_bytes=weight_bytes, shares_tied=(4, 8, FLOAT_BITS)
    ),
    hidden_multiple=min(_GROUP_SIZES),
)
