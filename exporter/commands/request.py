"""The arguments of `python -m exporter`."""

from dataclasses import dataclass
from pathlib import Path

from exporter.command_line.quantization import Quantization
from exporter.module.window_scheme import require_window_scheme
from quant.scheme import Scheme


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

    def chosen_vision_scheme(self) -> Scheme | None:
        """Returns the scheme of what sees; None: not given.

        Raises:
            ExportError: what sees cannot have it.
        """
        if self.vision_quant is None:
            return None
        require_window_scheme(self.vision_quant, "--vision-quant", "what sees")
        return Scheme(self.vision_quant)
