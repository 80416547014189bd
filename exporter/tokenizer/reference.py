"""The reference tokenizers behind one interface: for calibration, and to test our own."""

from pathlib import Path
from typing import Protocol

import sentencepiece
import tiktoken
import tokenizers

from exporter.tokenizer.document import tokenizer_document
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.gguf import reference_document, reference_model
from exporter.tokenizer.library import as_tokenizer_error, load_library_tokenizer
from exporter.tokenizer.normalization_forms import normalize
from exporter.tokenizer.source import TokenizerKind, TokenizerSource, find_tokenizer
from exporter.tokenizer.special_tokens import read_special_tokens
from exporter.tokenizer.tiktoken_ranks import family_of, read_ranks, specials_of


class ReferenceTokenizer(Protocol):
    """Converts text to ids and back. No BOS is added; special tokens in the text are plain text."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: list[int]) -> str: ...


def load_tokenizer(path: Path) -> ReferenceTokenizer:
    """Loads a tokenizer with the library that it was made for.

    Raises:
        TokenizerError: `path` has no tokenizer, or the library cannot read it.
    """
    source = find_tokenizer(path)
    try:
        return _load(source)
    except TokenizerError:
        raise
    except Exception as error:  # the libraries raise bare Exception and RuntimeError
        raise TokenizerError(
            f"the tokenizer {source.path} cannot be loaded ({error}): download its files again."
        ) from error


def _load(source: TokenizerSource) -> ReferenceTokenizer:
    converted = tokenizer_document(source, read_special_tokens(source.directory))
    if converted is not None:
        return _HuggingFace(load_library_tokenizer(converted[0]))
    if source.kind is TokenizerKind.TIKTOKEN:
        return _Tiktoken(source.path)
    if source.kind is TokenizerKind.SENTENCEPIECE:
        return _SentencePiece(source.path.read_bytes())
    stored = reference_document(source.path)
    if stored is None:
        return _SentencePiece(reference_model(source.path))
    return _HuggingFace(load_library_tokenizer(stored))


class _HuggingFace:
    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True

    def encode(self, text: str) -> list[int]:
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        except BaseException as error:  # for example, its unknown token is missing
            raise as_tokenizer_error(error, "cannot encode a text") from None

    def decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))


class _Tiktoken:
    def __init__(self, path: Path) -> None:
        ranks = read_ranks(path)
        family = family_of(ranks, path)
        specials = specials_of(family, ranks)
        self._form = family.form
        self._special_ids = set(specials.values())
        self._encoding = tiktoken.Encoding(
            family.name,
            pat_str=family.pattern,
            mergeable_ranks=ranks,
            special_tokens=specials,
        )

    def encode(self, text: str) -> list[int]:
        text = text if self._form is None else normalize(self._form, text)
        return self._encoding.encode_ordinary(text)

    def decode(self, ids: list[int]) -> str:
        return self._encoding.decode([token for token in ids if token not in self._special_ids])


class _SentencePiece:
    def __init__(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encode(self, text: str) -> list[int]:
        return list(self._processor.encode(text))

    def decode(self, ids: list[int]) -> str:
        return str(self._processor.decode(ids))
