"""The reference tokenizers behind one interface: for calibration, and to test our own."""

from pathlib import Path
from typing import Protocol

import sentencepiece
import tiktoken
import tokenizers

from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.gguf import reference_document, reference_model
from exporter.tokenizer.huggingface import GPT2_END
from exporter.tokenizer.source import TokenizerKind, TokenizerSource, find_tokenizer
from exporter.tokenizer.tiktoken_ranks import LLAMA3_PATTERN, llama3_specials, read_ranks


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
    if source.kind is TokenizerKind.TIKTOKEN:
        return _Tiktoken(source.path)
    if source.kind is TokenizerKind.SENTENCEPIECE:
        return _SentencePiece(source.path.read_bytes())
    if source.kind is TokenizerKind.GGUF:
        document = reference_document(source.path)
        if document is None:
            return _SentencePiece(reference_model(source.path))
        return _HuggingFace(tokenizers.Tokenizer.from_str(document))
    if source.kind is TokenizerKind.TOKENIZER_JSON:
        return _HuggingFace(tokenizers.Tokenizer.from_file(str(source.path)))
    model = tokenizers.models.BPE.from_file(str(source.path), str(source.merges_path))
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([GPT2_END])
    return _HuggingFace(tokenizer)


class _HuggingFace:
    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))


class _Tiktoken:
    def __init__(self, path: Path) -> None:
        self._special_ids = set(llama3_specials().values())
        self._encoding = tiktoken.Encoding(
            "llama3",
            pat_str=LLAMA3_PATTERN,
            mergeable_ranks=read_ranks(path),
            special_tokens=llama3_specials(),
        )

    def encode(self, text: str) -> list[int]:
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
