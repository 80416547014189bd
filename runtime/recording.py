"""The result of a recording."""

from dataclasses import dataclass
from pathlib import Path

MAX_RECORDING_BYTES = 1 << 30  # a flatbuffer ends at 2 GB


@dataclass(frozen=True)
class Recording:
    """The result of stop_recording().

    Attributes:
        path: the ETDump.
        calls: the number of recorded calls of the model, the first ones after the start.
        dropped_calls: the number of later calls, which did not fit the limits.
    """

    path: Path
    calls: int
    dropped_calls: int
