"""Writes the flatbuffer of schemas/tokenizer.fbs: each function below one table, field by field."""

import flatbuffers
import numpy as np

from exporter.file.flatbuffer_tables import Field, Flag, Number, table, tables
from exporter.tokenizer import blob_steps
from exporter.tokenizer.blob_steps import numbers, words_u32
from exporter.tokenizer.code_points import CODE_POINTS, blocks, matching
from exporter.tokenizer.hash_tables import merge_table, word_table
from exporter.tokenizer.specification import (
    AddedToken,
    Bpe,
    Decoder,
    TokenizerSpec,
    Unigram,
    WordLevel,
    WordPiece,
)
from exporter.tokenizer.trie import NONE

VERSION = 2
_IDENTIFIER = b"THTK"


def write_blob(spec: TokenizerSpec) -> bytes:
    """Returns the flatbuffer of a tokenizer, which the runner uses in place."""
    builder = flatbuffers.Builder(1 << 20)
    model: dict[type, Field] = {type(spec.model): _model(builder, spec)}
    word_blocks, word_characters = _word_characters(builder, spec.added_tokens)
    root = table(
        builder,
        Number("Uint32", VERSION),
        Number("Uint32", len(spec.decoder.texts)),
        Number("Int32", _or_none(spec.bos_id), -1),
        Flag(spec.adds_bos),
        numbers(builder, np.array(spec.eos_ids, dtype=np.int32)),
        _decoder(builder, spec.decoder),
        tables(builder, [_added_token(builder, token) for token in _ordered(spec.added_tokens)]),
        word_blocks,
        word_characters,
        tables(builder, [blob_steps.step(builder, step) for step in spec.normalizers]),
        tables(builder, [blob_steps.step(builder, step) for step in spec.pre_tokenizers]),
        *(model.get(kind) for kind in (Bpe, Unigram, WordPiece, WordLevel)),
    )
    builder.Finish(root, file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _or_none(token_id: int | None) -> int:
    return -1 if token_id is None else token_id


def _model(builder: flatbuffers.Builder, spec: TokenizerSpec) -> int:
    model = spec.model
    if isinstance(model, Bpe):
        return _bpe(builder, model, spec.decoder.texts)
    if isinstance(model, Unigram):
        return _unigram(builder, model)
    if isinstance(model, WordPiece):
        return table(
            builder,
            blob_steps.trie(builder, model.tokens),
            builder.CreateString(model.prefix),
            Number("Int32", _or_none(model.unknown_id), -1),
            Number("Uint32", model.max_characters),
        )
    return table(
        builder,
        _words(builder, model.tokens, spec.decoder.texts),
        Number("Int32", _or_none(model.unknown_id), -1),
        _byte_symbols(builder, model.byte_symbols),
        Flag(model.fuses_unknown),
    )


def _bpe(builder: flatbuffers.Builder, model: Bpe, decoded: list[bytes]) -> int:
    merges, merge_homes = merge_table(model.merges)
    words = None
    if model.whole_words is not None:
        words = _words(builder, model.whole_words, decoded)
    return table(
        builder,
        _byte_symbols(builder, model.byte_symbols),
        tables(builder, [_symbol_map(builder, symbols) for symbols in model.characters]),
        Flag(model.byte_fallback),
        builder.CreateString(model.prefix) if model.prefix else None,
        builder.CreateString(model.suffix) if model.suffix else None,
        Number("Int32", _or_none(model.unknown_id), -1),
        Flag(model.fuses_unknown),
        words_u32(builder, model.virtual_characters),
        numbers(builder, merges),
        Number("Uint32", merge_homes),
        words,
    )


def _unigram(builder: flatbuffers.Builder, model: Unigram) -> int:
    return table(
        builder,
        blob_steps.trie(builder, model.tokens),
        numbers(builder, np.array(model.scores, dtype=np.float64)),
        Number("Int32", _or_none(model.unknown_id), -1),
        Number("Float64", model.unknown_score),
        _byte_symbols(builder, model.byte_symbols),
        Flag(model.single_precision),
    )


def _byte_symbols(builder: flatbuffers.Builder, symbols: list[int] | None) -> int | None:
    return None if symbols is None else numbers(builder, np.array(symbols, dtype=np.int32))


def _symbol_map(builder: flatbuffers.Builder, symbols: dict[int, int]) -> int:
    values = np.full(CODE_POINTS, NONE, dtype=np.uint32)
    values[list(symbols)] = list(symbols.values())
    return table(builder, *(numbers(builder, part) for part in blocks(values)))


def _words(builder: flatbuffers.Builder, words: dict[bytes, int], decoded: list[bytes]) -> int:
    """The words; with their own texts if these differ from the decoded ones."""
    slots, homes = word_table(words)
    ends, texts = None, None
    if any(decoded[token_id] != word for word, token_id in words.items()):
        own = [b""] * (max(words.values()) + 1)
        for word, token_id in words.items():
            own[token_id] = word
        ends, texts = blob_steps.texts(builder, own)
    return table(builder, numbers(builder, slots), Number("Uint32", homes), ends, texts)


def _decoder(builder: flatbuffers.Builder, decoder: Decoder) -> int:
    return table(
        builder,
        *blob_steps.texts(builder, decoder.texts),
        words_u32(builder, sorted(decoder.skipped)),
        _exceptions(builder, decoder.first),
        Flag(decoder.drops_first_space),
        Flag(decoder.start_lasts),
        _exceptions(builder, decoder.last),
        Flag(decoder.drops_last_space),
        Flag(decoder.replaces_each_byte),
        Flag(decoder.skipped_cut),
        tables(
            builder,
            [
                table(
                    builder,
                    Number("Uint8", step.kind),
                    Number("Uint32", ord(step.character)),
                    Number("Uint32", step.count),
                    builder.CreateString(step.text) if step.text else None,
                )
                for step in decoder.finish
            ],
        ),
    )


def _exceptions(builder: flatbuffers.Builder, texts: dict[int, bytes]) -> int | None:
    if not texts:
        return None
    ids = sorted(texts)
    return table(
        builder,
        words_u32(builder, ids),
        *blob_steps.texts(builder, [texts[token_id] for token_id in ids]),
    )


def _ordered(tokens: list[AddedToken]) -> list[AddedToken]:
    return sorted(tokens, key=lambda token: (token.normalized, token.pattern.encode("utf-8")))


def _added_token(builder: flatbuffers.Builder, token: AddedToken) -> int:
    return table(
        builder,
        builder.CreateString(token.pattern),
        Number("Uint32", token.id),
        *(
            Flag(flag)
            for flag in (
                token.special,
                token.normalized,
                token.lstrip,
                token.rstrip,
                token.single_word,
            )
        ),
    )


def _word_characters(
    builder: flatbuffers.Builder, tokens: list[AddedToken]
) -> tuple[int | None, int | None]:
    if not any(token.single_word for token in tokens):
        return None, None
    index, values = blocks(matching(r"\w").astype(np.uint8))
    return numbers(builder, index), numbers(builder, values)
