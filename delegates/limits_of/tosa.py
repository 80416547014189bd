"""TOSA's limits."""

import importlib.util

from delegates.limits import Limits
from delegates.storage import FLOAT_BITS, FileSizes

# The wheel of tosa-tools requires older versions of numpy and flatbuffers than necessary.
INSTALL = "pip install ml_dtypes && pip install --no-deps tosa-tools==2026.5.0"


def _missing() -> str | None:
    if importlib.util.find_spec("tosa_serializer") and importlib.util.find_spec("ml_dtypes"):
        return None
    return f"Arm's tosa-tools is not installed, and the tosa delegate needs it: {INSTALL}"


LIMITS = Limits(
    name="tosa",
    runs_on="Arm's NPUs and GPUs, after their own compilers",
    weight_bits=(FLOAT_BITS,),
    dynamic=False,
    missing=_missing,
    checks=lambda: importlib.util.find_spec("tosa_reference_model") is not None,
    sizes=FileSizes(layer_bytes=1 << 16),
)
