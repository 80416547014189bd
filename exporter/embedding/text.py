"""How the texts of a model become tokens: its tokenizer, the tokens around a text, its limits."""

from dataclasses import dataclass
from pathlib import Path

import tokenizers
import torch
from torch import Tensor

from exporter.embedding.settings import EmbeddingSettings
from exporter.errors import ExportError
from exporter.models.encoder_spec import AnyEncoderSpec
from exporter.tokenizer import CompiledTokenizer, TokenizerError, compile_tokenizer
from exporter.tokenizer.document import tokenizer_document
from exporter.tokenizer.library import as_tokenizer_error, load_library_tokenizer
from exporter.tokenizer.source import find_tokenizer
from exporter.tokenizer.special_tokens import read_special_tokens

_PROBES = "a", "Aa bB", "1"


@dataclass(frozen=True)
class Template:
    """
    Attributes:
        before, after: the tokens that surround every text.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]


class TextReader:
    """Texts to tokens, as the model's own tokenizer does it.

    Args:
        max_seq_len: the most tokens of a text, with those around it; longer ones are cut.
    """

    def __init__(
        self, tokenizer: tokenizers.Tokenizer, template: Template, max_seq_len: int
    ) -> None:
        self._tokenizer = tokenizer
        self.template = template
        self.max_seq_len = max_seq_len

    def encode(self, text: str) -> list[int]:
        template = self.template
        room = self.max_seq_len - len(template.before) - len(template.after)
        return [*template.before, *_encode(self._tokenizer, text)[:room], *template.after]

    def windows(self, text: str, most: int, length: int) -> Tensor:
        """Cuts a text into windows of equal length, of which it takes `most`, far apart.

        Returns:
            int64 (windows, length), or of the model's limit if that is shorter; each is a text with
            the tokens around it.
        """
        before, after = self.template.before, self.template.after
        room = min(length, self.max_seq_len) - len(before) - len(after)
        tokens = _encode(self._tokenizer, text)
        starts = range(0, len(tokens) - room + 1, room)
        kept = starts[:: max(1, len(starts) // most)][:most]
        return torch.tensor([[*before, *tokens[at : at + room], *after] for at in kept])


def open_tokenizer(
    directory: Path, spec: AnyEncoderSpec, settings: EmbeddingSettings, max_seq_len: int | None
) -> tuple[CompiledTokenizer, TextReader]:
    """Compiles a model's tokenizer, and opens it with its own library.

    Args:
        max_seq_len: the user's limit; None: the model's.

    Raises:
        ExportError, TokenizerError: it is not supported, or has other tokens than the model.
    """
    compiled = compile_tokenizer(directory, directory, spec.vocab_size)
    if compiled.vocab_size > spec.vocab_size:
        raise ExportError(
            f"The tokenizer has {compiled.vocab_size} tokens but the model has a vocabulary of "
            f"{spec.vocab_size}; take both from the same model."
        )
    source = find_tokenizer(directory)
    converted = tokenizer_document(source, read_special_tokens(source.directory))
    if converted is None:
        raise ExportError(
            f"{source.path} has no tokens around a text, which embeddings need; add the model's "
            "tokenizer.json."
        )
    library = load_library_tokenizer(converted[0])
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = True
    template = _template(library)
    if settings.lowers and any(
        _encode(library, probe) != _encode(library, probe.lower()) for probe in _PROBES
    ):
        raise ExportError(
            "sentence_bert_config.json has do_lower_case, but the tokenizer keeps upper case; set "
            "it to false, or take the tokenizer of the same model."
        )
    limit = min(settings.max_seq_len or spec.max_seq_len, spec.max_seq_len)
    least = len(template.before) + len(template.after) + 1
    if max_seq_len is not None and not least <= max_seq_len <= spec.max_seq_len:
        raise ExportError(
            f"--max-seq-len {max_seq_len} is not possible; it must be from {least} to "
            f"{spec.max_seq_len}, the model's limit."
        )
    return compiled, TextReader(library, template, max_seq_len or limit)


def _template(library: tokenizers.Tokenizer) -> Template:
    """Returns the tokens around every text, from what becomes of some."""
    templates = set()
    for probe in _PROBES:
        own, all_tokens = _encode(library, probe), _encode(library, probe, special=True)
        starts = [
            at
            for at in range(len(all_tokens) - len(own) + 1)
            if own and all_tokens[at : at + len(own)] == own
        ]
        if len(starts) != 1:
            raise TokenizerError(
                "the tokenizer's post_processor changes texts themselves, which is not supported: "
                "it may put tokens before and behind them."
            )
        end = starts[0] + len(own)
        templates.add(Template(tuple(all_tokens[: starts[0]]), tuple(all_tokens[end:])))
    if len(templates) > 1:
        raise TokenizerError(
            "the tokenizer's post_processor puts other tokens around other texts, which is not "
            "supported."
        )
    return templates.pop()


def _encode(library: tokenizers.Tokenizer, text: str, special: bool = False) -> list[int]:
    try:
        return list(library.encode(text, add_special_tokens=special).ids)
    except BaseException as error:  # for example, its unknown token is missing
        raise as_tokenizer_error(error, "cannot encode a text") from None
