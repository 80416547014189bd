"""Tables for Unicode normalization form C, equal to the reference tokenizers' own library.

Python's `unicodedata` lists the code points that may change. The reference's normalizer, which
follows an older Unicode version, decides how each one changes.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers

from exporter.tokenizer import code_points

_MAY_CHANGE = 255
_HANGUL = range(0xAC00, 0xD7A4)
_HANGUL_SECONDS = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))
_HIGH_MARK = "\u0315"  # combining class 232
_LOW_MARK = "\u0334"  # combining class 1


@dataclass(frozen=True)
class NfcTables:
    """The columns of the schema's table `Nfc`."""

    blocks: npt.NDArray[np.uint16]
    properties: npt.NDArray[np.uint8]
    decomposed: list[int]
    decomposition_ends: list[int]
    decompositions: list[int]
    compositions: list[int]


def nfc_tables() -> NfcTables:
    """Builds the tables from the installed `tokenizers`."""
    nfc = normalizers.NFC().normalize_str
    nfd = normalizers.NFD().normalize_str
    properties = np.zeros(code_points.CODE_POINTS, dtype=np.uint8)
    decomposed: list[int] = []
    ends: list[int] = []
    decompositions: list[int] = []
    compositions: list[tuple[int, int, int]] = []
    for seconds in _HANGUL_SECONDS:
        properties[seconds.start : seconds.stop] = _MAY_CHANGE
    for point in range(0xC0, code_points.CODE_POINTS):
        character = chr(point)
        combining = unicodedata.combining(character)
        if combining and _is_reordered(nfd, character, combining):
            properties[point] = combining
        mapping = unicodedata.decomposition(character)
        if not mapping or mapping.startswith("<") or point in _HANGUL:
            continue
        full = nfd(character)
        if full == character:
            continue
        decomposed.append(point)
        decompositions += map(ord, full)
        ends.append(len(decompositions))
        if nfc(character) != character and not properties[point]:
            properties[point] = _MAY_CHANGE
        parts = [int(part, 16) for part in mapping.split()]
        if len(parts) == 2 and nfc("".join(map(chr, parts))) == character:
            compositions.append((parts[0], parts[1], point))
            if not properties[parts[1]]:
                properties[parts[1]] = _MAY_CHANGE
    blocks, values = code_points.blocks(properties)
    flat = [value for triple in sorted(compositions) for value in triple]
    return NfcTables(blocks, values, decomposed, ends, decompositions, flat)


def _is_reordered(nfd: Callable[[str], str], character: str, combining: int) -> bool:
    """Whether the reference knows this mark's combining class."""
    if combining > 1:
        return nfd(character + _LOW_MARK) == _LOW_MARK + nfd(character)
    return nfd(_HIGH_MARK + character) == nfd(character) + _HIGH_MARK
