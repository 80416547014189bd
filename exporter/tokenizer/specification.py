"""The common form of all kinds of tokenizer files, before it is compiled for the runner."""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from exporter.tokenizer.character_maps import CharacterMap
from exporter.tokenizer.dfa import Automaton
from exporter.tokenizer.normalization_forms import Form


class Behavior(IntEnum):
    """What happens to a split's matches; the values are the schema's."""

    ISOLATED = 0
    REMOVED = 1
    CONTIGUOUS = 2
    MERGED_WITH_PREVIOUS = 3
    MERGED_WITH_NEXT = 4


@dataclass(frozen=True)
class MapCharacters:
    """Each character becomes what `map` says."""

    map: CharacterMap


@dataclass(frozen=True)
class Normalize:
    """A Unicode normalization form."""

    form: Form


@dataclass(frozen=True)
class Replace:
    """Each match becomes `text`."""

    automaton: Automaton
    text: str


@dataclass(frozen=True)
class Prepend:
    """Puts `text` before a text that is not empty.

    Attributes:
        unless_there: not if the text already begins with it.
        only_first: only before the first piece of a text.
    """

    text: str
    unless_there: bool = False
    only_first: bool = False


@dataclass(frozen=True)
class Strip:
    """Removes white space at the ends."""

    left: bool
    right: bool


@dataclass(frozen=True)
class Bytes:
    """Each byte becomes GPT-2's printable character for it."""


@dataclass(frozen=True)
class Charsmap:
    """SentencePiece's precompiled map.

    Attributes:
        units: uint32, the double array; texts: what its values point at.
        kept: SentencePiece's user-defined pieces, copied as they are.
        by_graphemes: read as `tokenizers` does, by grapheme clusters.
    """

    units: npt.NDArray[np.uint32]
    texts: bytes
    kept: tuple[str, ...] = ()
    by_graphemes: bool = False


@dataclass(frozen=True)
class Spaces:
    """SentencePiece's treatment of spaces.

    Attributes:
        removes_extra: one space stands for several, and none stays at the ends.
        escapes: a space is written as U+2581.
    """

    removes_extra: bool = False
    adds_prefix: bool = False
    adds_suffix: bool = False
    escapes: bool = False


@dataclass(frozen=True)
class Split:
    """Splits a text at the matches; `inverted`: the text between them counts as matches."""

    automaton: Automaton
    behavior: Behavior = Behavior.ISOLATED
    inverted: bool = False


Step = (
    MapCharacters | Normalize | Replace | Prepend | Strip | Bytes | Charsmap | Spaces | Split
)  # fmt: skip


@dataclass
class Bpe:
    """Byte pair encoding.

    Attributes:
        byte_symbols: the token of each of the 256 bytes, -1 where there is none.
        merges: (left, right, rank, merged): two adjacent symbols that become one, the lowest rank
            first, then the leftmost.
        characters: code point -> symbol: one map, or four (a word's first character and its others,
            then the same of its last character); none: merging starts from bytes.
        virtual_characters: of the symbols from the vocabulary's size on, which have no token.
        byte_fallback: a character without a symbol becomes its bytes' tokens; written with `prefix`
            and `suffix` where its place in the word asks for them.
        whole_words: token -> its id, for pieces that are not merged; None: all are.
    """

    byte_symbols: list[int]
    merges: list[tuple[int, int, int, int]]
    characters: list[dict[int, int]] = field(default_factory=list)
    virtual_characters: list[int] = field(default_factory=list)
    byte_fallback: bool = False
    prefix: str = ""
    suffix: str = ""
    unknown_id: int | None = None
    fuses_unknown: bool = False
    whole_words: dict[bytes, int] | None = None


@dataclass
class Unigram:
    """The likeliest sequence of tokens.

    Attributes:
        tokens: each token's text -> its id.
        scores: of each id, the logarithm of its probability.
        byte_symbols: the tokens of bytes, for what is unknown; None: no byte fallback.
        single_precision: sums are float32, as SentencePiece has them.
    """

    tokens: dict[bytes, int]
    scores: list[float]
    unknown_id: int | None
    unknown_score: float
    byte_symbols: list[int] | None = None
    single_precision: bool = False


@dataclass
class WordPiece:
    """The longest token first; those after a word's first token have `prefix`."""

    tokens: dict[bytes, int]
    prefix: str
    unknown_id: int | None
    max_characters: int


@dataclass
class WordLevel:
    """A token for each word that has one."""

    tokens: dict[bytes, int]
    unknown_id: int | None
    byte_symbols: list[int] | None = None
    fuses_unknown: bool = False


Model = Bpe | Unigram | WordPiece | WordLevel


class FinishKind(IntEnum):
    """What is done with joined text; the values are the schema's."""

    REPLACE = 0
    STRIP_LEFT = 1
    STRIP_RIGHT = 2


@dataclass(frozen=True)
class Finish:
    """One step on the joined text: replaces `character` by `text`, or removes up to `count`."""

    kind: FinishKind
    character: str
    text: str = ""
    count: int = 0


@dataclass
class Decoder:
    """What tokens become as text.

    Attributes:
        texts: each id's bytes between others.
        skipped: the ids that are left out: special tokens, and ids without a token.
        first, last: the bytes of ids that differ as a text's first or last token; of all others,
            one space at that end is dropped if `drops_first_space`, `drops_last_space`.
        start_lasts: a text starts with the first token whose text is not empty.
        replaces_each_byte: each byte that is not UTF-8 becomes U+FFFD, not each sequence of them.
        skipped_cut: bytes on both sides of a skipped token never form one character.
        finish: what is done with the joined text.
    """

    texts: list[bytes]
    skipped: list[int] = field(default_factory=list)
    first: dict[int, bytes] = field(default_factory=dict)
    drops_first_space: bool = False
    start_lasts: bool = False
    last: dict[int, bytes] = field(default_factory=dict)
    drops_last_space: bool = False
    replaces_each_byte: bool = False
    skipped_cut: bool = False
    finish: list[Finish] = field(default_factory=list)


@dataclass(frozen=True)
class AddedToken:
    """A token that is searched in the text before the text is split.

    Attributes:
        found_as: the text that is searched, if not `content`: it is normalized like the text.
    """

    content: str
    id: int
    special: bool
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    found_as: str = ""

    @property
    def pattern(self) -> str:
        """The text that is searched."""
        return self.found_as or self.content


@dataclass
class TokenizerSpec:
    """A tokenizer.

    Attributes:
        normalizers: steps on the text between added tokens; none of them splits.
        pre_tokenizers: steps on what lies between the added tokens found in normalized text.
        named: the texts of the tokens that have a name, such as `bos_token`.
        ends_texts: whether the tokenizer puts a token behind every text, which prompts go without.
        notes: where the files contradict each other, and which of them counts.
    """

    decoder: Decoder
    model: Model
    normalizers: list[Step] = field(default_factory=list)
    pre_tokenizers: list[Step] = field(default_factory=list)
    added_tokens: list[AddedToken] = field(default_factory=list)
    bos_id: int | None = None
    adds_bos: bool = False
    eos_ids: list[int] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    ends_texts: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> list[bytes]:
        """Each id's bytes inside a text."""
        return self.decoder.texts
