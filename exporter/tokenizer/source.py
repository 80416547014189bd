"""Finds a model's tokenizer files and detects their kind."""

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from exporter.catalogue.file_start import GGUF_MAGIC
from exporter.json_object import LFS_POINTER, lfs_pointer
from exporter.tokenizer.errors import TokenizerError

_NAMES = ("tokenizer.json", "tokenizer.model", "vocab.json")
_OTHER_NAMES = ("*.model", "*.tiktoken")  # spiece.model, sentencepiece.bpe.model, qwen.tiktoken
_WORDS = "vocab.txt"  # of BERT: pieces alone, without the steps before and behind them


class TokenizerKind(Enum):
    """The supported file formats."""

    TOKENIZER_JSON = "tokenizer.json"
    SENTENCEPIECE = "tokenizer.model (SentencePiece)"
    TIKTOKEN = "tokenizer.model (tiktoken ranks)"
    VOCAB_AND_MERGES = "vocab.json and merges.txt"
    GGUF = "the metadata of a GGUF file"


@dataclass(frozen=True)
class TokenizerSource:
    """A tokenizer's main file, its kind, and the directory that may hold its configs."""

    path: Path
    kind: TokenizerKind

    @property
    def directory(self) -> Path:
        return self.path.parent

    @property
    def merges_path(self) -> Path:
        """The merges file that belongs to a `vocab.json`."""
        return self.path.with_name(self.path.name.replace("vocab.json", "merges.txt"))


def find_tokenizer(path: Path) -> TokenizerSource:
    """Finds the tokenizer in a directory, or detects the kind of a file.

    Raises:
        TokenizerError: there is none, there are several, or it is of no known kind.
    """
    if not os.path.isdir(path):  # for impossible names os.path returns False, pathlib raises
        return _source_of_file(path)
    for name in _NAMES:
        if os.path.isfile(path / name):
            return _source_of_file(path / name)
    others = sorted(
        file for name in _OTHER_NAMES for file in path.glob(name) if os.path.isfile(file)
    )
    if len(others) == 1:
        return _source_of_file(others[0])
    if others:
        raise TokenizerError(
            f"{path} has several tokenizers ({', '.join(file.name for file in others)}): give "
            "the file of one."
        )
    if os.path.isfile(path / _WORDS):
        raise TokenizerError(
            f"{path} has its tokenizer only as {_WORDS}: write its tokenizer.json with "
            "transformers, AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)."
        )
    raise TokenizerError(
        f"{path} has no tokenizer: a tokenizer.json, a SentencePiece .model, a .tiktoken file, "
        "or a vocab.json with its merges.txt is needed next to the weights."
    )


def _source_of_file(path: Path) -> TokenizerSource:
    try:
        with path.open("rb") as file:
            head = file.read(1024)
    except OSError as error:
        raise TokenizerError(
            f"the tokenizer {path} cannot be read ({error.strerror}): give a directory or file "
            "that has one."
        ) from None
    if head.startswith(GGUF_MAGIC):
        return TokenizerSource(path, TokenizerKind.GGUF)
    if path.name.endswith("vocab.json"):
        return TokenizerSource(path, TokenizerKind.VOCAB_AND_MERGES)
    if head.lstrip().startswith(b"{"):
        return TokenizerSource(path, TokenizerKind.TOKENIZER_JSON)
    if _looks_like_ranks(head):
        return TokenizerSource(path, TokenizerKind.TIKTOKEN)
    if head.startswith(LFS_POINTER):
        raise TokenizerError(lfs_pointer(path))
    if head.startswith(b"\n"):  # ModelProto's field 1, length-delimited: the first piece
        return TokenizerSource(path, TokenizerKind.SENTENCEPIECE)
    raise TokenizerError(
        f"{path} is not a known kind of tokenizer: give a tokenizer.json, a SentencePiece model, a "
        "GGUF file or a file of tiktoken ranks."
    )


def _looks_like_ranks(head: bytes) -> bool:
    token, space, rank = head.partition(b"\n")[0].partition(b" ")
    return bool(token) and bool(space) and rank.strip().isdigit()
