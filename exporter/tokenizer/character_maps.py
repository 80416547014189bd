"""What a normalizer does to each single character, according to the reference's own library."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from exporter.tokenizer import code_points

_CHUNK = 128


@dataclass(frozen=True, eq=False)
class CharacterMap:
    """The columns of the schema's table `CharacterMap`.

    Attributes:
        kinds: uint8 (CODE_POINTS,): 0 stays, 1 is replaced, 2 is put between spaces.
        replacements: code point -> text, for those of kind 1.
    """

    kinds: npt.NDArray[np.uint8]
    replacements: dict[int, str]


def character_map(normalize: Callable[[str], str]) -> CharacterMap:
    """Calls `normalize`, which must treat each character separately, and keeps its changes."""
    kinds = np.zeros(code_points.CODE_POINTS, dtype=np.uint8)
    replacements: dict[int, str] = {}
    for start in range(0, code_points.CODE_POINTS, _CHUNK):
        if 0xD800 <= start < 0xE000:
            continue
        chunk = "".join(map(chr, range(start, start + _CHUNK)))
        if normalize(chunk) == chunk:
            continue
        for character in chunk:
            mapped = normalize(character)
            if mapped == f" {character} ":
                kinds[ord(character)] = 2
            elif mapped != character:
                kinds[ord(character)] = 1
                replacements[ord(character)] = mapped
    return CharacterMap(kinds, replacements)
