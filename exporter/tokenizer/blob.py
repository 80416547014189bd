"""Writes the flatbuffer of schemas/tokenizer.fbs; the slots below are its fields, in order."""

import flatbuffers
import numpy as np
import numpy.typing as npt

from exporter.tokenizer.dfa import Splitter
from exporter.tokenizer.hash_tables import merge_table, word_table
from exporter.tokenizer.nfc import nfc_tables
from exporter.tokenizer.specification import AddedToken, TokenizerSpec

VERSION = 1
_IDENTIFIER = b"THTK"
_TOKENIZER_FIELDS = 22


def write_blob(spec: TokenizerSpec) -> bytes:
    """Returns the flatbuffer of a tokenizer, which the runner uses in place."""
    builder = flatbuffers.Builder(1 << 20)
    ends = np.cumsum([len(token) for token in spec.tokens], dtype=np.uint32)
    merges, merge_homes = merge_table(spec.merges)
    characters = sorted(spec.characters)
    vectors = {
        4: _numbers(builder, np.array(spec.eos_ids, dtype=np.int32)),
        5: _numbers(builder, ends),
        6: _numbers(builder, np.frombuffer(b"".join(spec.tokens), dtype=np.uint8)),
        8: _numbers(builder, np.array(spec.byte_symbols, dtype=np.int32)),
        9: _numbers(builder, np.array(characters, dtype=np.uint32)),
        10: _numbers(
            builder, np.array([spec.characters[point] for point in characters], dtype=np.uint32)
        ),
        11: _numbers(builder, merges),
        15: _tables(builder, [_splitter(builder, splitter) for splitter in spec.splitters]),
        17: _tables(
            builder,
            [_added_token(builder, token) for token in sorted(spec.added_tokens, key=_order)],
        ),
    }
    word_homes = 0
    if spec.whole_words is not None:
        words, word_homes = word_table(spec.tokens, spec.whole_words)
        vectors[13] = _numbers(builder, words)
    if spec.nfc:
        vectors[16] = _nfc(builder)
    builder.StartObject(_TOKENIZER_FIELDS)
    for slot, vector in vectors.items():
        builder.PrependUOffsetTRelativeSlot(slot, vector, 0)
    builder.PrependUint32Slot(0, VERSION, 0)
    builder.PrependUint32Slot(1, len(spec.tokens), 0)
    builder.PrependInt32Slot(2, -1 if spec.bos_id is None else spec.bos_id, -1)
    builder.PrependBoolSlot(3, spec.adds_bos, False)
    builder.PrependUint8Slot(7, spec.alphabet, 0)
    builder.PrependUint32Slot(12, merge_homes, 0)
    builder.PrependUint32Slot(14, word_homes, 0)
    builder.PrependUint8Slot(18, spec.space_prefix, 0)
    builder.PrependBoolSlot(19, spec.space_prefix_unless_space, False)
    builder.PrependBoolSlot(20, spec.strips_first_space, False)
    builder.PrependBoolSlot(21, spec.words_begin_at_spaces, False)
    builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _order(token: AddedToken) -> tuple[bool, bytes]:
    return token.normalized, token.content.encode("utf-8")


def _numbers(builder: flatbuffers.Builder, values: npt.NDArray[np.generic]) -> int:
    return int(builder.CreateNumpyVector(values))


def _tables(builder: flatbuffers.Builder, tables: list[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())


def _splitter(builder: flatbuffers.Builder, splitter: Splitter) -> int:
    blocks = _numbers(builder, splitter.blocks)
    classes = _numbers(builder, splitter.classes)
    transitions = _numbers(builder, splitter.transitions)
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(0, blocks, 0)
    builder.PrependUOffsetTRelativeSlot(1, classes, 0)
    builder.PrependUint16Slot(2, splitter.num_classes, 0)
    builder.PrependUOffsetTRelativeSlot(3, transitions, 0)
    builder.PrependBoolSlot(4, splitter.keeps_gaps, False)
    return int(builder.EndObject())


def _added_token(builder: flatbuffers.Builder, token: AddedToken) -> int:
    content = builder.CreateString(token.content)
    builder.StartObject(6)
    builder.PrependUOffsetTRelativeSlot(0, content, 0)
    builder.PrependUint32Slot(1, token.id, 0)
    builder.PrependBoolSlot(2, token.special, False)
    builder.PrependBoolSlot(3, token.normalized, False)
    builder.PrependBoolSlot(4, token.lstrip, False)
    builder.PrependBoolSlot(5, token.rstrip, False)
    return int(builder.EndObject())


def _nfc(builder: flatbuffers.Builder) -> int:
    tables = nfc_tables()
    vectors = [
        _numbers(builder, tables.blocks),
        _numbers(builder, tables.properties),
        *(
            _numbers(builder, np.array(values, dtype=np.uint32))
            for values in (
                tables.decomposed,
                tables.decomposition_ends,
                tables.decompositions,
                tables.compositions,
            )
        ),
    ]
    builder.StartObject(len(vectors))
    for slot, vector in enumerate(vectors):
        builder.PrependUOffsetTRelativeSlot(slot, vector, 0)
    return int(builder.EndObject())
