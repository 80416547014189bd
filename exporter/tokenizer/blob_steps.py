"""Writes the steps before a model, and the vectors that all tables of the blob share."""

from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt

from exporter.file.flatbuffer_tables import Flag, Number, table
from exporter.tokenizer import specification as spec
from exporter.tokenizer.code_points import blocks
from exporter.tokenizer.dfa import Automaton
from exporter.tokenizer.graphemes import grapheme_classes
from exporter.tokenizer.normalization_forms import Form, form_tables
from exporter.tokenizer.trie import trie_tables


def numbers(builder: flatbuffers.Builder, values: npt.NDArray[Any]) -> int:
    return int(builder.CreateNumpyVector(values))


def words_u32(builder: flatbuffers.Builder, values: list[int]) -> int:
    return numbers(builder, np.array(values, dtype=np.uint32))


def texts(builder: flatbuffers.Builder, parts: list[bytes]) -> tuple[int, int]:
    """Where each text ends, and all of them."""
    ends = np.cumsum([len(part) for part in parts], dtype=np.uint32)
    return numbers(builder, ends), numbers(builder, np.frombuffer(b"".join(parts), dtype=np.uint8))


def trie(builder: flatbuffers.Builder, tokens: dict[bytes, int]) -> int:
    columns = trie_tables(tokens)
    return table(
        builder,
        numbers(builder, columns.first_children),
        numbers(builder, columns.labels),
        numbers(builder, columns.values),
    )


_KINDS = (
    spec.MapCharacters,
    spec.Normalize,
    spec.Replace,
    spec.Prepend,
    spec.Strip,
    spec.Bytes,
    spec.Charsmap,
    spec.Spaces,
    spec.Split,
)


def step(builder: flatbuffers.Builder, step: spec.Step) -> int:
    """One step, as the schema's table `Step`."""
    parts: dict[str, int] = {}
    if isinstance(step, spec.MapCharacters):
        parts["map"] = _character_map(builder, step)
    elif isinstance(step, spec.Normalize):
        parts["form"] = _form(builder, step.form)
    elif isinstance(step, spec.Charsmap):
        parts["charsmap"] = _charsmap(builder, step)
    elif isinstance(step, spec.Replace | spec.Split):
        parts["automaton"] = _automaton(builder, step.automaton)
    if isinstance(step, spec.Replace | spec.Prepend):
        parts["text"] = builder.CreateString(step.text)
    return table(
        builder,
        Number("Uint8", _KINDS.index(type(step))),
        *(parts.get(name) for name in ("map", "form", "automaton", "charsmap", "text")),
        Number("Uint8", getattr(step, "behavior", 0)),
        *(Flag(getattr(step, name, False)) for name in _FLAGS),
    )


_FLAGS = (
    "inverted",
    "unless_there",
    "only_first",
    "left",
    "right",
    "removes_extra",
    "adds_prefix",
    "adds_suffix",
    "escapes",
)


def _automaton(builder: flatbuffers.Builder, automaton: Automaton) -> int:
    return table(
        builder,
        numbers(builder, automaton.blocks),
        numbers(builder, automaton.classes),
        Number("Uint16", automaton.num_classes),
        numbers(builder, automaton.transitions),
    )


def _character_map(builder: flatbuffers.Builder, step: spec.MapCharacters) -> int:
    index, kinds = blocks(step.map.kinds)
    points = sorted(step.map.replacements)
    return table(
        builder,
        numbers(builder, index),
        numbers(builder, kinds),
        words_u32(builder, points),
        *texts(builder, [step.map.replacements[point].encode("utf-8") for point in points]),
    )


def _form(builder: flatbuffers.Builder, form: Form) -> int:
    columns = form_tables(form)
    return table(
        builder,
        numbers(builder, columns.blocks),
        numbers(builder, columns.properties),
        words_u32(builder, columns.decomposed),
        words_u32(builder, columns.decomposition_ends),
        words_u32(builder, columns.decompositions),
        Flag(columns.composes),
        words_u32(builder, columns.compositions),
    )


def _charsmap(builder: flatbuffers.Builder, step: spec.Charsmap) -> int:
    index: int | None = None
    classes: int | None = None
    if step.by_graphemes:
        index, classes = (numbers(builder, part) for part in blocks(grapheme_classes()))
    kept = {text.encode("utf-8"): 0 for text in step.kept}
    return table(
        builder,
        numbers(builder, step.units),
        numbers(builder, np.frombuffer(step.texts, dtype=np.uint8)),
        trie(builder, kept) if kept else None,
        index,
        classes,
    )
