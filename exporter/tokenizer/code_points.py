"""Sets of Unicode code points, as the reference tokenizers' own regex engines see them.

The engines follow versions of the Unicode tables of their own; Python's `unicodedata` and the
`regex` package follow others, which would split newly assigned letters differently. So the engine
itself is asked: which characters of a text that holds every code point does this class match?
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tiktoken
from tokenizers import Regex, normalizers

from exporter.tokenizer.errors import TokenizerError

CODE_POINTS = 0x110000
_PIECE = 1 << 14  # characters that Oniguruma is asked about at once; all take four times as long

# One bool for each code point: (CODE_POINTS,).
CodePointSet = npt.NDArray[np.bool_]


@lru_cache(maxsize=1)
def every_character() -> str:
    """A text that holds each of them once, in order."""
    points = np.arange(CODE_POINTS, dtype="<u4")
    is_surrogate = (points >= 0xD800) & (points < 0xE000)
    return points[~is_surrogate].tobytes().decode("utf-32-le")


@lru_cache(maxsize=256)
def matching(atom: str, ruby_syntax: bool = False, among: str | None = None) -> CodePointSet:
    r"""The code points that a one-character regex such as `\p{L}`, `[^\s]` or `(?i:s)` matches.

    Args:
        ruby_syntax: asks Oniguruma, which reads the patterns of a `tokenizer.json`, and not Rust's
            engine, which reads tiktoken's.
        among: the characters that the engine is asked about; None: every character.

    Raises:
        TokenizerError: the reference engine does not know this class.
    """
    text = every_character() if among is None else among
    try:
        return _matching_ruby(atom, text) if ruby_syntax else _matching_rust(atom, text)
    except Exception as error:  # the libraries raise bare Exception and ValueError
        why = " ".join(str(error).split())
        raise TokenizerError(
            f"the pattern's class {atom!r} is unknown to the reference tokenizers ({why}): check "
            "the tokenizer's file."
        ) from None


def letter(ascii_letter: str, ruby_syntax: bool) -> CodePointSet:
    """The code points that equal a letter of ASCII regardless of case: `matching` of `(?i:s)`, ten
    times as fast, as only those are asked about that equal any."""
    any_letter = matching("(?i:[a-z])", ruby_syntax).nonzero()[0]
    return matching(f"(?i:{ascii_letter})", ruby_syntax, "".join(map(chr, any_letter)))


def _matching_rust(atom: str, text: str) -> CodePointSet:
    single_bytes = {bytes([value]): value for value in range(256)}
    engine = tiktoken.Encoding(
        "class", pat_str=f"(?:{atom})+", mergeable_ranks=single_bytes, special_tokens={}
    )
    return of_text(bytes(engine.encode_ordinary(text)).decode("utf-8"))


def _matching_ruby(atom: str, text: str) -> CodePointSet:
    without = normalizers.Replace(Regex(f"(?:{atom})+"), "")
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return of_text(text) & ~of_text("".join(map(without.normalize_str, pieces)))


def of_text(text: str) -> CodePointSet:
    """Returns the set of the characters of `text`."""
    members = np.zeros(CODE_POINTS, dtype=np.bool_)
    members[np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)] = True
    return members


def between(first: str, last: str) -> CodePointSet:
    """Returns the set of the characters `first` to `last`, both included."""
    members = np.zeros(CODE_POINTS, dtype=np.bool_)
    members[ord(first) : ord(last) + 1] = True
    return members


def partition(sets: list[CodePointSet]) -> tuple[npt.NDArray[np.uint8], int]:
    """Groups the code points that belong to the same sets of `sets`.

    Returns:
        The class of each code point, uint8 (CODE_POINTS,), and the number of classes.

    Raises:
        TokenizerError: there are more than 255 classes.
    """
    changes = np.zeros(CODE_POINTS, dtype=np.bool_)
    changes[0] = True
    for members in sets:
        changes[1:] |= members[1:] != members[:-1]
    starts = np.flatnonzero(changes)
    every = np.ones(CODE_POINTS, dtype=np.bool_)  # there may be no sets: a pattern may be empty
    signatures = np.array([members[starts] for members in (every, *sets)], dtype=np.bool_)
    split, class_of_run = np.unique(signatures, axis=1, return_inverse=True)
    count = split.shape[1]
    if count > 255:
        raise TokenizerError(
            "the tokenizer's pattern distinguishes more than 255 classes of characters: no "
            "supported tokenizer needs that many."
        )
    lengths = np.diff(np.append(starts, CODE_POINTS))
    classes = np.repeat(class_of_run.astype(np.uint8), lengths)
    return classes, count


def blocks(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[Any]]:
    """Folds a table over all code points into blocks of 128 that are stored once.

    Returns:
        The block of each `code point >> 7`, uint16 (CODE_POINTS / 128,), and the blocks' values
        (number of blocks * 128,). Block 0 is ASCII.
    """
    places: dict[bytes, int] = {}
    index = np.empty(CODE_POINTS // 128, dtype=np.uint16)
    for number, row in enumerate(values.reshape(-1, 128)):
        index[number] = places.setdefault(row.tobytes(), len(places))
    return index, np.frombuffer(b"".join(places), dtype=values.dtype)
