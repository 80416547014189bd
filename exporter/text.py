"""Everything of a model that is text: tokenizer, chat template, calibration and held-out tokens."""

import hashlib
import io
import math
import os
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from exporter.chat_template import compile_chat_template, find_chat_template
from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.options import ExportOptions
from exporter.pte import CHAT_TEMPLATE, TOKENIZER
from exporter.source import EMBEDDED
from exporter.tokenizer import compile_tokenizer, load_tokenizer
from quant.errors import QuantError
from quant.measure.windows import (
    WINDOW,
    calibration_windows,
    default_calibration_tokens,
    default_evaluation_tokens,
    evaluation_windows,
)

BUILT_IN = "built-in text"  # the name of the one that ships with the embedded model


@dataclass(frozen=True)
class Text:
    """What the text side gives to an export.

    Attributes:
        blobs: what rides along in the file, by name.
        bos_id, eos_ids: the tokens that begin and end a text.
        chat_template: "compiled" or "stored as text", and why or what to know; None where the
            model has none.
        calibration: int64 (windows, seq_len); None where neither the scheme nor a budget
            needs any.
        evaluation: int64 (windows, seq_len), held out.
        source: which text these two are of, by name.
        sha256: of its file.
    """

    blobs: dict[str, bytes]
    bos_id: int | None
    eos_ids: tuple[int, ...]
    chat_template: str | None
    calibration: Tensor | None
    evaluation: Tensor
    source: str
    sha256: str


def prepare_text(options: ExportOptions, checkpoint: Checkpoint) -> Text:
    """Compiles the tokenizer and tokenizes the calibration text.

    Raises:
        ExportError, TokenizerError, QuantError: nothing to read, or nothing usable.
    """
    path = options.tokenizer or checkpoint.directory
    compiled = compile_tokenizer(path, checkpoint.directory)
    config = checkpoint.config
    if compiled.vocab_size > config.vocab_size:
        raise ExportError(
            f"The tokenizer has {compiled.vocab_size} tokens and {checkpoint.name} has a "
            f"vocabulary of {config.vocab_size}; name the model's own with --tokenizer."
        )
    encode = load_tokenizer(path).encode
    source = options.calibration or EMBEDDED / "calibration.txt"
    text, sha256 = _read_text(source)
    weights = sum(math.prod(shape) for shape in checkpoint.weights.shapes().values())
    window = min(WINDOW, config.context_limit)
    bos_id = compiled.bos_id if compiled.bos_id is not None else config.bos_token_id
    calibration = None
    try:
        evaluation = evaluation_windows(
            text, encode, default_evaluation_tokens(weights), window, bos_id
        )
        budget = options.bits is not None or options.max_size is not None
        if options.scheme.needs_calibration or budget:
            tokens = options.calibration_tokens or default_calibration_tokens(weights)
            calibration = calibration_windows(text, encode, tokens, window, bos_id)
    except QuantError as error:
        raise ExportError(f"The calibration text {source}: {error}") from None
    blobs, chat_template = {TOKENIZER: compiled.data}, None
    template = find_chat_template(path if os.path.isdir(path) else path.parent)
    if template is not None:
        chat = compile_chat_template(template, compiled.bos_token, compiled.eos_token)
        blobs[CHAT_TEMPLATE] = chat.data
        chat_template = "compiled" if chat.reduced else "stored as text"
        chat_template += f": {chat.reason}" if chat.reason else ""
    return Text(
        blobs=blobs,
        bos_id=bos_id,
        eos_ids=tuple(compiled.eos_ids) or config.eos_token_ids,
        chat_template=chat_template,
        calibration=calibration,
        evaluation=evaluation,
        source=BUILT_IN if options.calibration is None else source.name,
        sha256=sha256,
    )


def _read_text(path: Path) -> tuple[str, str]:
    """A text, and its file's SHA-256."""
    try:
        data = path.read_bytes()
        lines = io.StringIO(data.decode("utf-8-sig"), newline=None)  # any line ends, as in a file
        return lines.read(), hashlib.sha256(data).hexdigest()
    except OSError as error:
        raise ExportError(
            f"The calibration text {path} cannot be read ({error.strerror}); name a UTF-8 text "
            "file with --calibration."
        ) from None
    except UnicodeDecodeError as error:
        raise ExportError(
            f"The calibration text {path} is not UTF-8 (byte {error.start}: {error.reason}); name "
            "a UTF-8 text file with --calibration."
        ) from None
