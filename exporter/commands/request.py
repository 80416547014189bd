"""The arguments of `python -m exporter`."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """The arguments of the command line."""

    model: str | None
    out: Path | None
    checkpoint: str | None
    adapter: tuple[str, ...]
    tokenizer: Path | None
    scheme: str
    method: str | None
    group_size: int
    head_bits: int | None
    bits: float | None
    max_size: str | None
    calibration: Path | None
    calibration_tokens: int | None
    max_context_len: int | None
    max_seq_len: int | None
    delegate: str
    etrecord: Path | None
    cache: Path | None
    no_cache: bool
    max_memory: str | None
    device: str
    list_delegates: bool
    layer_errors: bool
    explain: bool
    explain_json: Path | None
    inspect: Path | None
