"""Tables for Unicode's normalization forms, as the reference tokenizers' own library has them.

Python's `unicodedata` lists the code points that may change. The reference's normalizer, which
follows an older Unicode version, decides how each one changes.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers

from exporter.tokenizer import code_points

_MAY_CHANGE = 255
_HANGUL = range(0xAC00, 0xD7A4)
_HANGUL_SECONDS = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))
_HIGH_MARK = "\u0315"  # combining class 232
_LOW_MARK = "\u0334"  # combining class 1


class Form(Enum):
    """The forms of Unicode Standard Annex 15."""

    NFC = "NFC"
    NFD = "NFD"
    NFKC = "NFKC"
    NFKD = "NFKD"

    @property
    def composes(self) -> bool:
        return self in (Form.NFC, Form.NFKC)

    @property
    def keeps_compatibility(self) -> bool:
        """Whether only canonical decompositions are made."""
        return self in (Form.NFC, Form.NFD)


@dataclass(frozen=True)
class FormTables:
    """The columns of the schema's table `NormalizationForm`."""

    blocks: npt.NDArray[np.uint16]
    properties: npt.NDArray[np.uint8]
    decomposed: list[int]
    decomposition_ends: list[int]
    decompositions: list[int]
    composes: bool
    compositions: list[int]


def normalize(form: Form, text: str) -> str:
    """The text in this form, by the installed `tokenizers`."""
    return str(getattr(normalizers, form.value)().normalize_str(text))


def form_tables(form: Form) -> FormTables:
    """Builds the tables from the installed `tokenizers`."""
    decompose = normalizers.NFD() if form.keeps_compatibility else normalizers.NFKD()
    fully = decompose.normalize_str
    whole = getattr(normalizers, form.value)().normalize_str
    nfc = normalizers.NFC().normalize_str
    properties = np.zeros(code_points.CODE_POINTS, dtype=np.uint8)
    decomposed: list[int] = []
    ends: list[int] = []
    decompositions: list[int] = []
    compositions: list[tuple[int, int, int]] = []
    if form.composes:
        for seconds in _HANGUL_SECONDS:
            properties[seconds.start : seconds.stop] = _MAY_CHANGE
    else:
        properties[_HANGUL.start : _HANGUL.stop] = _MAY_CHANGE
    for point in range(0xA0, code_points.CODE_POINTS):
        character = chr(point)
        combining = unicodedata.combining(character)
        if combining and _is_reordered(normalizers.NFD().normalize_str, character, combining):
            properties[point] = combining
        mapping = unicodedata.decomposition(character)
        if not mapping or point in _HANGUL:
            continue
        full = fully(character)
        if full == character:
            continue
        decomposed.append(point)
        decompositions += map(ord, full)
        ends.append(len(decompositions))
        if whole(character) != character and not properties[point]:
            properties[point] = _MAY_CHANGE
        parts = [] if mapping.startswith("<") else [int(part, 16) for part in mapping.split()]
        if form.composes and len(parts) == 2 and nfc("".join(map(chr, parts))) == character:
            compositions.append((parts[0], parts[1], point))
            if not properties[parts[1]]:
                properties[parts[1]] = _MAY_CHANGE
    blocks, values = code_points.blocks(properties)
    flat = [value for triple in sorted(compositions) for value in triple]
    return FormTables(blocks, values, decomposed, ends, decompositions, form.composes, flat)


def _is_reordered(nfd: Callable[[str], str], character: str, combining: int) -> bool:
    """Whether the reference knows this mark's combining class."""
    if combining > 1:
        return nfd(character + _LOW_MARK) == _LOW_MARK + nfd(character)
    return nfd(_HIGH_MARK + character) == nfd(character) + _HIGH_MARK
