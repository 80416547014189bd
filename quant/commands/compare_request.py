"""The arguments of `python -m quant compare`."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """The arguments of the command line."""

    model: str
    calibration: Path | None
    held_out: Path | None
    separator: str | None
    group_sizes: tuple[int, ...]
    tokens: int
    calibration_tokens: int
    only: tuple[str, ...]
