"""Everything of a model that is text: tokenizer, chat template, calibration and held-out tokens."""

import math
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.options import ExportOptions
from exporter.pte import TOKENIZER
from exporter.source import EMBEDDED
from exporter.tokenizer import compile_tokenizer, load_tokenizer
from quant.calibration import (
    WINDOW,
    calibration_windows,
    default_calibration_tokens,
    default_evaluation_tokens,
    evaluation_windows,
)


@dataclass(frozen=True)
class Text:
    """What the text side gives to an export.

    Attributes:
        blobs: what rides along in the file, by name.
        bos_id, eos_ids: the tokens that begin and end a text.
        chat_template: "compiled", "stored as text: why", or None where the model has none.
        calibration: int64 (windows, seq_len); None for a scheme that does not calibrate.
        evaluation: int64 (windows, seq_len), held out.
    """

    blobs: dict[str, bytes]
    bos_id: int | None
    eos_ids: tuple[int, ...]
    chat_template: str | None
    calibration: Tensor | None
    evaluation: Tensor


def prepare_text(options: ExportOptions, checkpoint: Checkpoint) -> Text:
    """Compiles the tokenizer and tokenizes the calibration text.

    Raises:
        ExportError, TokenizerError, QuantError: nothing to read, or nothing usable.
    """
    path = options.tokenizer or checkpoint.directory
    compiled = compile_tokenizer(path)
    config = checkpoint.config
    if compiled.vocab_size > config.vocab_size:
        raise ExportError(
            f"The tokenizer has {compiled.vocab_size} tokens and {checkpoint.name} has a "
            f"vocabulary of {config.vocab_size}; name the model's own with --tokenizer."
        )
    encode = load_tokenizer(path).encode
    text = _read_text(options.calibration)
    weights = sum(math.prod(shape) for shape in checkpoint.weights.shapes().values())
    window = min(WINDOW, config.context_limit)
    bos_id = compiled.bos_id if compiled.bos_id is not None else config.bos_token_id
    evaluation = evaluation_windows(
        text, encode, default_evaluation_tokens(weights), window, bos_id
    )
    calibration = None
    if options.scheme.needs_calibration:
        tokens = options.calibration_tokens or default_calibration_tokens(weights)
        calibration = calibration_windows(text, encode, tokens, window, bos_id)
    return Text(
        blobs={TOKENIZER: compiled.data},
        bos_id=bos_id,
        eos_ids=tuple(compiled.eos_ids) or config.eos_token_ids,
        chat_template=None,
        calibration=calibration,
        evaluation=evaluation,
    )


def _read_text(path: Path | None) -> str:
    path = path or EMBEDDED / "calibration.txt"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(
            f"The calibration text {path} cannot be read ({error}); name a UTF-8 text file with "
            "--calibration."
        ) from None
