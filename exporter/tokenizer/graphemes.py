"""Where user-perceived characters end, as the normalizer `Precompiled` of `tokenizers` sees it.

It replaces a cluster of fewer than six bytes by what its map has for the cluster's beginning, and
looks at each character of a longer one. So a map with a single key shows the clusters: a mark
after the key vanishes if a short cluster begins with the key, and stays if the key is inside a
longer one.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers

from exporter.tokenizer.code_points import CODE_POINTS

# The values are runtime/cpp/tokenizer/graphemes.h's.
_CARRIAGE_RETURN, _LINE_FEED, _CONTROL, _EXTEND, _EXTEND_APART, _LINKER = range(1, 7)
_JOINER, _PREPEND, _SPACING_MARK = range(7, 10)
_LEAD, _VOWEL, _TRAIL, _OPEN, _CLOSED = range(10, 15)
_PICTOGRAPH, _CONSONANT = range(15, 17)

_MARK, _SECOND_MARK = "\u0301", "\u0308"  # two bytes each
_JOINER_CHARACTER, _TRADE_MARK = "\u200d", "\u2122"
_KA, _SSA, _VIRAMA = "\u0915", "\u0937", "\u094d"
_END = "\n"
# Ideographs, Hangul and private use are none of these.
_LOOKED_AT = (
    range(0x3400),
    range(0xA000, 0xAC00),
    range(0xF900, 0x20000),
    range(0xE0000, 0xE1000),
)


@lru_cache(maxsize=1)
def grapheme_classes() -> npt.NDArray[np.uint8]:
    """The class of each code point, uint8 (CODE_POINTS,).

    Pairs of regional indicators are left out: their clusters are too long to be replaced.
    """
    every = [point for block in _LOOKED_AT for point in block]
    attached = _attached(every)
    first = [point for point in every if point not in attached]
    extending = sorted(attached)
    pair = _JOINER_CHARACTER + _TRADE_MARK
    extended = _joined(extending, _TRADE_MARK, pair)
    classes = np.zeros(CODE_POINTS, dtype=np.uint8)
    for members, value in (
        (_joined(first, "", pair) | {ord(_TRADE_MARK)}, _PICTOGRAPH),
        (_joined(first, "", _VIRAMA + _SSA) | {ord(_SSA)}, _CONSONANT),
        (_joined(first, "", "a"), _PREPEND),
        (set(first) - _joined(first, "", _SECOND_MARK), _CONTROL),
        (attached - extended, _SPACING_MARK),
        (extended, _EXTEND_APART),
        (_joined(extending, _KA, _VIRAMA + _SSA), _EXTEND),
        (_joined(extending, _KA, _SSA), _LINKER),
        ({ord(_JOINER_CHARACTER)}, _JOINER),
        ({0x0D}, _CARRIAGE_RETURN),
        ({0x0A}, _LINE_FEED),
    ):
        classes[list(members)] = value
    classes[0x1100:0x1160] = classes[0xA960:0xA97D] = _LEAD
    classes[0x1160:0x11A8] = classes[0xD7B0:0xD7C7] = _VOWEL
    classes[0x11A8:0x1200] = classes[0xD7CB:0xD7FC] = _TRAIL
    classes[0xAC00:0xD7A4] = _CLOSED
    classes[0xAC00:0xD7A4:28] = _OPEN
    return classes


def _attached(points: Iterable[int]) -> set[int]:
    """The characters that no cluster begins with: they vanish after the key."""
    text = "".join(f"a{chr(point)}" for point in points if point != ord("a"))
    return set(map(ord, text)) - set(map(ord, _map_of("a").normalize_str(text))) - {ord("a")}


def _joined(points: list[int], before: str, behind: str) -> set[int]:
    """The characters that, between `before` and `behind`, keep the last of `behind` from being
    the beginning of a cluster."""
    key = behind[-1]
    points = [point for point in points if chr(point) not in (key, _END)]
    text = _END.join(before + chr(point) + behind + _MARK for point in points)
    lines = _map_of(key).normalize_str(text).split(_END)
    return {point for point, line in zip(points, lines, strict=True) if line.endswith(_MARK)}


def _map_of(key: str) -> normalizers.Normalizer:
    """A precompiled map with one key, whose text is `!`: a double array that is a chain."""
    units = np.zeros((len(key.encode("utf-8")) + 2) * 256, dtype="<u4")
    base = 256
    units[0] = base << 10
    for byte in key.encode("utf-8"):
        place = base ^ byte
        base += 256
        units[place] = (place ^ base) << 10 | byte
    units[place] |= 1 << 8  # a value follows: the place of the text
    units[base] = 1 << 31
    return normalizers.Precompiled(struct.pack("<I", units.nbytes) + units.tobytes() + b"!\0")
