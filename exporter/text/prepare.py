"""The text parts of a model: tokenizer, chat template, calibration and held-out tokens."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from exporter.catalogue.names import EMBEDDED
from exporter.chat_template import (
    DEFAULT,
    TOOL_USE,
    TemplateText,
    compile_chat_template,
    find_chat_templates,
    first_turn,
)
from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.file.pte import CHAT_TEMPLATE, TOKENIZER
from exporter.listener import SILENT, Listener
from exporter.options import ExportOptions
from exporter.text.file import read_text_file
from exporter.tokenizer import TokenizerError, compile_tokenizer, load_tokenizer
from quant.errors import QuantError
from quant.measure.windows import (
    WINDOW,
    Encode,
    calibration_windows,
    default_calibration_tokens,
    evaluation_tokens,
    evaluation_windows,
)

_DOCUMENTATION = EMBEDDED / "calibration.txt"  # what the embedded model was trained on
_ENCYCLOPEDIA = EMBEDDED / "encyclopedia.txt"
_AS_TEXT = "stored as text"
Cut = Callable[[str, Encode, int, int, int | None], Tensor]  # calibration_windows and its like


@dataclass(frozen=True)
class Text:
    """The text parts of an export.

    Attributes:
        blobs: the blobs for the file, by name.
        bos_id, eos_ids: the tokens that begin and end a text.
        chat_template: "compiled" or "stored as text", with a reason or remark; None if the model
            has none.
        calibration: int64 (windows, seq_len); None if neither the scheme nor a budget needs it.
        evaluation: int64 (windows, seq_len), held out; None if no text was named and the tokenizer
            makes too few tokens of the package's, so that quality is not measured.
        prompts: token ids with which the model's own texts begin, if it writes a part of the
            calibration.
        source: the name of the text of these two.
        sha256: SHA-256 of its files, one after the other.
        template: the chat template itself.
    """

    blobs: dict[str, bytes]
    bos_id: int | None
    eos_ids: tuple[int, ...]
    chat_template: str | None
    calibration: Tensor | None
    evaluation: Tensor | None
    prompts: tuple[tuple[int, ...], ...]
    source: str
    sha256: str
    template: TemplateText | None = None

    @property
    def template_fault(self) -> str:
        """Why no runner can chat with the model's template; empty if they can or it has none."""
        return (self.chat_template or "").partition(f"{_AS_TEXT}: ")[2]


NO_TEXT = Text({}, None, (), None, None, None, (), "", "")


def prepare_text(
    options: ExportOptions, checkpoint: Checkpoint, listener: Listener = SILENT
) -> Text:
    """Compiles the tokenizer and tokenizes the calibration text.

    Raises:
        ExportError, TokenizerError, QuantError: a file is missing or not usable.
    """
    path = options.tokenizer or checkpoint.directory
    config = checkpoint.config
    compiled = compile_tokenizer(path, checkpoint.directory, config.vocab_size)
    for note in compiled.notes:
        listener.note(note)
    if compiled.ends_texts:
        listener.note(
            f"The tokenizer of {checkpoint.name} puts a token behind every text (its "
            "post_processor or add_eos_token): prompts go without, so that the model continues "
            "them."
        )
    if compiled.vocab_size > config.vocab_size:
        raise ExportError(
            f"The tokenizer has {compiled.vocab_size} tokens but {checkpoint.name} has a "
            f"vocabulary of {config.vocab_size}; give the model's own with --tokenizer."
        )
    ends = tuple(compiled.eos_ids) or config.eos_token_ids
    lacking = [token for token in ends if token >= compiled.vocab_size]
    if lacking:
        raise ExportError(
            f"{checkpoint.name} ends a text at token {lacking[0]}, but the tokenizer has "
            f"{compiled.vocab_size} tokens; give the model's own with --tokenizer."
        )
    encode = load_tokenizer(path).encode
    sources, source = _sources(options, checkpoint)
    texts, sha256 = _read_texts(sources)
    weights = sum(math.prod(shape) for shape in checkpoint.weights.shapes().values())
    window = min(WINDOW, config.context_limit)
    bos_id = compiled.bos_id if compiled.bos_id is not None else config.bos_token_id
    calibration = evaluation = None
    calibrates = options.scheme.needs_calibration or options.has_budget
    try:
        held_out = evaluation_tokens(weights)
        evaluation = _joined(evaluation_windows, texts, encode, held_out, window, bos_id)
        if calibrates:
            tokens = options.calibration_tokens or default_calibration_tokens(weights)
            calibration = _joined(calibration_windows, texts, encode, tokens, window, bos_id)
    except (QuantError, TokenizerError) as error:  # the latter for want of an unknown token
        if options.calibration is not None:
            raise ExportError(f"The calibration text {sources[0]}: {error}") from None
        if calibrates:
            raise ExportError(
                f"The tokenizer of {checkpoint.name} makes too few tokens of the built-in text to "
                "calibrate on; name a text of the model's own kind with --calibration."
            ) from None
    starts = [[token] for token in (bos_id, *ends) if token is not None][:1]
    blobs, chat_template = {TOKENIZER: compiled.data}, None
    template = _template(options, path, compiled.tokens, listener)
    if template is not None:
        blobs[CHAT_TEMPLATE], chat_template = _compiled(template)
        turn = first_turn(template.source, template.tokens)
        if turn and calibration is not None:
            ids = encode(turn)
            starts.append(ids if bos_id is None or ids[:1] == [bos_id] else [bos_id, *ids])
    return Text(
        blobs=blobs,
        bos_id=bos_id,
        eos_ids=ends,
        chat_template=chat_template,
        calibration=calibration,
        evaluation=evaluation,
        prompts=tuple(tuple(ids) for ids in starts if len(sources) > 1 and 2 * len(ids) < window),
        source=source,
        sha256=sha256,
        template=template,
    )


def with_pictures(text: Text, place: str) -> Text:
    """Returns the text parts of a model that sees: its chat template may take lists of parts.

    Args:
        place: the text at which a picture stands.
    """
    if text.template is None:
        return text
    data, chat_template = _compiled(text.template, place)
    return replace(text, blobs={**text.blobs, CHAT_TEMPLATE: data}, chat_template=chat_template)


def _template(
    options: ExportOptions, path: Path, tokens: dict[str, str], listener: Listener
) -> TemplateText | None:
    """The chat template that was given, or the model's own; None where it has none."""
    if options.chat_template is not None:
        return TemplateText(read_text_file(options.chat_template, "chat template")[0], tokens)
    found = find_chat_templates(path)
    if DEFAULT in found:
        return TemplateText(found[DEFAULT], tokens, found.get(TOOL_USE))
    if found:
        listener.note(
            f"The model's chat templates are named {', '.join(sorted(found))}, and none is the "
            "default: the file has none. Name one with --chat-template."
        )
    return None


def _compiled(template: TemplateText, place: str | None = None) -> tuple[bytes, str]:
    """Returns a chat template as a file has it, and what a report says of it."""
    chat = compile_chat_template(template.source, template.tokens, place, template.tool_source)
    kind = "compiled" if chat.reduced else _AS_TEXT
    return chat.data, f"{kind}: {chat.reason}" if chat.reason else kind


def _sources(options: ExportOptions, checkpoint: Checkpoint) -> tuple[tuple[Path, ...], str]:
    """Returns the given text or the package's texts, and their name in reports."""
    if options.calibration is not None:
        return (options.calibration,), options.calibration.name
    if checkpoint.directory == EMBEDDED:
        return (_DOCUMENTATION,), "built-in documentation"
    return (_DOCUMENTATION, _ENCYCLOPEDIA), "built-in documentation and encyclopedia"


def _joined(
    cut: Cut, texts: Sequence[str], encode: Encode, tokens: int, window: int, bos_id: int | None
) -> Tensor:
    """Windows of several texts, the same number of each where they are long enough."""
    share = -(-tokens // len(texts))
    return torch.cat([cut(text, encode, share, window, bos_id) for text in texts])


def _read_texts(paths: Sequence[Path]) -> tuple[list[str], str]:
    """Texts, and the SHA-256 of their files, one after the other."""
    files = [read_text_file(path) for path in paths]
    return [text for text, _ in files], hashlib.sha256(
        b"".join(data for _, data in files)
    ).hexdigest()
