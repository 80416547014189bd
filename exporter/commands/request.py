"""The arguments of `python -m exporter`."""

from dataclasses import dataclass
from pathlib import Path

from exporter.command_line.quantization import Quantization


@dataclass(frozen=True)
class Request(Quantization):
    """The arguments of the command line, beside those of quantization."""

    model: str | None
    out: Path | None
    checkpoint: str | None
    adapter: tuple[str, ...]
    tokenizer: Path | None
    chat_template: Path | None
    no_vision: bool
    vision_quant: str | None
    calibration_images: Path | None
    vad: Path | None
    bits: float | None
    max_size: str | None
    max_context_len: int | None
    max_seq_len: int | None
    delegate: str
    etrecord: Path | None
    cache: Path | None
    no_cache: bool
    list_delegates: bool
    layer_errors: bool
    explain: bool
    explain_json: Path | None
    sign: Path | None
    sign_file: Path | None
    inspect: Path | None
