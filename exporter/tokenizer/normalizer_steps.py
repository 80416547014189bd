"""Reads the normalizers of a `tokenizer.json`: what changes a text before it is split."""

import base64
import binascii
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from tokenizers import normalizers

from exporter.tokenizer.character_maps import CharacterMap, character_map
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.normalization_forms import Form
from exporter.tokenizer.specification import (
    Bytes,
    Charsmap,
    MapCharacters,
    Normalize,
    Prepend,
    Replace,
    Step,
    Strip,
)
from exporter.tokenizer.split_steps import escape_spaces, pattern_automaton

Json = dict[str, Any]


def normalizer_steps(steps: list[Json]) -> list[Step]:
    """Compiles normalizers, each with all its settings, in their order.

    Raises:
        TokenizerError: one that is not supported, or a pattern that cannot be compiled.
    """
    compiled: list[Step] = []
    for step in steps:
        if step["type"] not in _READERS:
            raise TokenizerError(
                f"the tokenizer.json uses the normalizer {step['type']!r}, which is not "
                f"supported: {', '.join(sorted(_READERS))} are."
            )
        compiled += _READERS[step["type"]](step)
    return compiled


def read_charsmap(data: bytes) -> Charsmap:
    """Takes SentencePiece's `precompiled_charsmap` apart: a size, a double array, and texts.

    Raises:
        TokenizerError: its parts do not match.
    """
    size = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
    if size % 4 or size == 0 or 4 + size > len(data):
        raise TokenizerError(
            f"the tokenizer's precompiled_charsmap of {len(data)} bytes is damaged: fetch the file "
            "again."
        )
    units = np.frombuffer(data, dtype="<u4", count=size // 4, offset=4)
    return Charsmap(units.astype(np.uint32), data[4 + size :])


def _precompiled(step: Json) -> list[Step]:
    try:
        data = base64.b64decode(step["precompiled_charsmap"] or "", validate=True)
    except binascii.Error:
        data = b""
    charsmap = read_charsmap(data)
    return [Charsmap(charsmap.units, charsmap.texts, by_graphemes=True)]


def _bert(step: Json) -> list[Step]:
    lowercase = bool(step["lowercase"])
    strips = lowercase if step["strip_accents"] is None else bool(step["strip_accents"])
    steps: list[Step] = []
    if step["clean_text"]:
        steps.append(MapCharacters(_bert_map("clean_text")))
    if step["handle_chinese_chars"]:
        steps.append(MapCharacters(_bert_map("handle_chinese_chars")))
    if strips:
        steps += [Normalize(Form.NFD), MapCharacters(_removed(_bert_map("strip_accents")))]
    if lowercase:
        steps.append(MapCharacters(_bert_map("lowercase")))
    return steps


@lru_cache(maxsize=4)
def _bert_map(setting: str) -> CharacterMap:
    settings = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    only = {name: name == setting for name in settings}
    return character_map(normalizers.BertNormalizer(**only).normalize_str)


def _removed(mapped: CharacterMap) -> CharacterMap:
    """What a map that also decomposes removes; the rest is done before."""
    removed = {point: "" for point, text in mapped.replacements.items() if not text}
    kinds = np.zeros_like(mapped.kinds)
    kinds[list(removed)] = 1
    return CharacterMap(kinds, removed)


@lru_cache(maxsize=3)
def _map_of(kind: str) -> CharacterMap:
    return character_map(getattr(normalizers, kind)().normalize_str)


def _replace(step: Json) -> list[Step]:
    if step["pattern"] == {"String": " "}:
        return [escape_spaces(step["content"])]
    return [Replace(pattern_automaton(step["pattern"]), step["content"])]


def _prepend(step: Json) -> list[Step]:
    return [Prepend(step["prepend"])] if step["prepend"] else []


_READERS: dict[str, Callable[[Json], list[Step]]] = {
    "BertNormalizer": _bert,
    "ByteLevel": lambda _: [Bytes()],
    "Lowercase": lambda _: [MapCharacters(_map_of("Lowercase"))],
    "NFC": lambda _: [Normalize(Form.NFC)],
    "NFD": lambda _: [Normalize(Form.NFD)],
    "NFKC": lambda _: [Normalize(Form.NFKC)],
    "NFKD": lambda _: [Normalize(Form.NFKD)],
    "Nmt": lambda _: [MapCharacters(_map_of("Nmt"))],
    "Precompiled": _precompiled,
    "Prepend": _prepend,
    "Replace": _replace,
    "Strip": lambda step: [Strip(bool(step["strip_left"]), bool(step["strip_right"]))],
    "StripAccents": lambda _: [MapCharacters(_map_of("StripAccents"))],
}
