"""The limits of Qualcomm's NPU."""

import os

from delegates.limits import Limits, never
from delegates.storage import FLOAT_BITS, float16_bytes

SDK = "QNN_SDK_ROOT"


def _missing() -> str | None:
    if os.path.isdir(os.environ.get(SDK, "")):
        return None
    return (
        f"Qualcomm's AI Engine Direct SDK is not installed ({SDK} is not a directory), but the qnn "
        "delegate needs its compiler. Get it from "
        f"https://www.qualcomm.com/developer/software/qualcomm-ai-engine-direct-sdk, set {SDK} to "
        "its directory and add its lib/x86_64-linux-clang to LD_LIBRARY_PATH."
    )


LIMITS = Limits(
    name="qnn",
    runs_on="Android phones with a Snapdragon 8 Gen 1 or newer",
    weight_bits=(FLOAT_BITS,),
    dynamic=False,
    missing=_missing,
    checks=never,
    cached_bytes=float16_bytes,
)
