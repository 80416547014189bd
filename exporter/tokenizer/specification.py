"""The common form of all kinds of tokenizer files, before it is compiled for the runner."""

from dataclasses import dataclass, field
from enum import IntEnum

from exporter.tokenizer.dfa import Splitter


class Alphabet(IntEnum):
    """The symbols that merging starts from; the values are the schema's."""

    BYTES = 0
    CHARACTERS = 1


class SpacePrefix(IntEnum):
    """When a space is put before the text; the values are the schema's."""

    NONE = 0
    TEXT_START = 1
    EVERY_SEGMENT = 2


@dataclass(frozen=True)
class AddedToken:
    """A token that is searched in the text before the text is split."""

    content: str
    id: int
    special: bool
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False


@dataclass
class TokenizerSpec:
    """A tokenizer.

    Attributes:
        tokens: each id's bytes in decoded text; empty for special tokens.
        byte_symbols: the token of each of the 256 bytes, -1 where there is none.
        merges: (left, right, rank, merged): two adjacent symbols that become one, the lowest rank
            first, then the leftmost.
        characters: code point -> symbol, for the alphabet of characters; symbols from `len(tokens)`
            on have no token and use byte fallback.
        whole_words: tokens that replace a piece equal to them without merging; None: all pieces
            merge.
        splitters: applied one after another.
        nfc: normalizes to Unicode form C.
        words_begin_at_spaces: no merge joins a non-space to a space on its right.
    """

    tokens: list[bytes]
    alphabet: Alphabet
    byte_symbols: list[int]
    merges: list[tuple[int, int, int, int]]
    characters: dict[int, int] = field(default_factory=dict)
    whole_words: list[int] | None = None
    splitters: list[Splitter] = field(default_factory=list)
    nfc: bool = False
    added_tokens: list[AddedToken] = field(default_factory=list)
    space_prefix: SpacePrefix = SpacePrefix.NONE
    space_prefix_unless_space: bool = False
    strips_first_space: bool = False
    words_begin_at_spaces: bool = False
    bos_id: int | None = None
    adds_bos: bool = False
    eos_ids: list[int] = field(default_factory=list)
