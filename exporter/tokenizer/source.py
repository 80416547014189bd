"""Finds a model's tokenizer files and tells their kinds apart."""

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from exporter.json_object import LFS_POINTER, lfs_pointer
from exporter.tokenizer.errors import TokenizerError


class TokenizerKind(Enum):
    """The file formats that are read."""

    TOKENIZER_JSON = "tokenizer.json"
    SENTENCEPIECE = "tokenizer.model (SentencePiece)"
    TIKTOKEN = "tokenizer.model (tiktoken ranks)"
    VOCAB_AND_MERGES = "vocab.json and merges.txt"


@dataclass(frozen=True)
class TokenizerSource:
    """One tokenizer's main file, its kind, and the directory that may hold configs beside it."""

    path: Path
    kind: TokenizerKind

    @property
    def directory(self) -> Path:
        return self.path.parent

    @property
    def merges_path(self) -> Path:
        """Where the merges lie that belong to a `vocab.json`."""
        return self.path.with_name(self.path.name.replace("vocab.json", "merges.txt"))


def find_tokenizer(path: Path) -> TokenizerSource:
    """Finds the tokenizer in a directory, or tells the kind of a file.

    Raises:
        TokenizerError: there is none, or it is of no known kind.
    """
    if not os.path.isdir(path):  # answers no where pathlib raises, for impossible names
        return _source_of_file(path)
    for name in ("tokenizer.json", "tokenizer.model", "vocab.json"):
        if os.path.isfile(path / name):
            return _source_of_file(path / name)
    raise TokenizerError(
        f"{path} holds no tokenizer: a tokenizer.json, a tokenizer.model, or a vocab.json with its "
        "merges.txt is needed beside the weights."
    )


def _source_of_file(path: Path) -> TokenizerSource:
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise TokenizerError(
            f"the tokenizer {path} cannot be read ({error.strerror}): name a directory or file "
            "that holds one."
        ) from None
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
        f"{path} is no tokenizer that is known: a tokenizer.json, a SentencePiece model or a file "
        "of tiktoken ranks is."
    )


def _looks_like_ranks(head: bytes) -> bool:
    token, space, rank = head.partition(b"\n")[0].partition(b" ")
    return bool(token) and bool(space) and rank.strip().isdigit()
