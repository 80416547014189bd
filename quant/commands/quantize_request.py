"""The arguments of `python -m quant run`."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """The arguments of the command line."""

    model: str
    scheme: str
    method: str | None
    group_size: int
    head_bits: int | None
    calibration: Path | None
    calibration_tokens: int | None
    tokenizer: Path | None
    cache: Path | None
    max_memory: str | None
    device: str
    as_json: bool
