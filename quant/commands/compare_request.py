"""What `python -m quant compare` was asked for."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """The command line as it was typed."""

    model: str
    calibration: Path | None
    held_out: Path | None
    separator: str | None
    group_sizes: tuple[int, ...]
    tokens: int
    calibration_tokens: int
    only: tuple[str, ...]
