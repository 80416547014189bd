"""The arguments of `python -m quant run`."""

from dataclasses import dataclass
from pathlib import Path

from exporter.command_line.quantization import Quantization


@dataclass(frozen=True)
class Request(Quantization):
    """The arguments of the command line, beside those of quantization."""

    model: str
    tokenizer: Path | None
    cache: Path | None
    as_json: bool
