"""Reads a SentencePiece model: BPE, unigram, word or character, with and without byte fallback."""

from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.normalizer_steps import read_charsmap
from exporter.tokenizer.specification import (
    AddedToken,
    Bpe,
    Charsmap,
    Decoder,
    Model,
    Spaces,
    Split,
    Step,
    TokenizerSpec,
    Unigram,
    WordLevel,
)
from exporter.tokenizer.split_steps import SPACE, pattern_automaton, words_at_spaces

PROTOS: Any = sentencepiece_model_pb2  # protobuf builds its classes at run time
KINDS = PROTOS.ModelProto.SentencePiece
_UNKNOWN_PENALTY = np.float32(10.0)  # of unigram models, below the least likely piece
_LEAST_MAX_SCORE = np.float32(1.1754943508222875e-38)  # where SentencePiece begins to look


def read_sentencepiece(path: Path) -> TokenizerSpec:
    """Reads a model into a spec.

    Raises:
        TokenizerError: the file is damaged, or uses an unsupported feature, which is named.
    """
    return read_model(parsed(path), path)


def pieces_of(path: Path) -> list[str]:
    """The text of each piece of a model."""
    return [piece.piece for piece in parsed(path).pieces]


def parsed(path: Path) -> Any:
    """The model as its protobuf.

    Raises:
        TokenizerError: the file is damaged.
    """
    model = PROTOS.ModelProto()
    damaged = f"{path} is not a readable SentencePiece model: download the file again."
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError:
        raise TokenizerError(damaged) from None
    texts = [model.trainer_spec.unk_surface, *(piece.piece for piece in model.pieces)]
    if not all(isinstance(text, str) for text in texts):  # protobuf gives bytes that are not UTF-8
        raise TokenizerError(damaged)
    return model


def read_model(model: Any, path: Path) -> TokenizerSpec:
    """Reads a parsed model into a spec; `path` is where it comes from.

    Raises:
        TokenizerError: it uses an unsupported feature, which is named.
    """
    _refuse_unsupported(path, model)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    pieces = list(model.pieces)
    user_defined = [piece.piece for piece in pieces if piece.type == KINDS.USER_DEFINED]
    normalizers: list[Step] = []
    if normalizer.precompiled_charsmap:
        charsmap = read_charsmap(normalizer.precompiled_charsmap)
        kept = tuple(user_defined)
        normalizers.append(Charsmap(charsmap.units, charsmap.texts, kept))
    suffixes = trainer.treat_whitespace_as_suffix
    normalizers.append(
        Spaces(
            removes_extra=normalizer.remove_extra_whitespaces,
            adds_prefix=normalizer.add_dummy_prefix and not suffixes,
            adds_suffix=normalizer.add_dummy_prefix and suffixes,
            escapes=normalizer.escape_whitespaces,
        )
    )
    read, pre_tokenizers = _model(model, path)
    added = [
        AddedToken(piece.piece, token, special=True)
        for token, piece in enumerate(pieces)
        if piece.type == KINDS.CONTROL and piece.piece
    ]
    if isinstance(read, Bpe):  # the others find them as they find any piece
        added += [
            AddedToken(piece.piece, token, special=False, normalized=True)
            for token, piece in enumerate(pieces)
            if piece.type == KINDS.USER_DEFINED
        ]
    bos_id, eos_ids = text_ends(model)
    return TokenizerSpec(
        decoder=_decoder(model),
        model=read,
        normalizers=normalizers,
        pre_tokenizers=pre_tokenizers,
        added_tokens=added,
        bos_id=bos_id,
        adds_bos=bos_id is not None,
        eos_ids=eos_ids,
    )


def text_ends(model: Any) -> tuple[int | None, list[int]]:
    """The piece that begins a text, and those that end one, as a model says."""
    bos, eos = model.trainer_spec.bos_id, model.trainer_spec.eos_id
    ids = range(len(model.pieces))
    return bos if bos in ids else None, [eos] if eos in ids else []


def _model(model: Any, path: Path) -> tuple[Model, list[Step]]:
    trainer = model.trainer_spec
    pieces = list(model.pieces)
    unknown = next(token for token, piece in enumerate(pieces) if piece.type == KINDS.UNKNOWN)
    byte_symbols = None
    if trainer.byte_fallback:
        byte_symbols = [token for token, piece in enumerate(pieces) if piece.type == KINDS.BYTE]
        if [pieces[token].piece for token in byte_symbols] != [f"<0x{v:02X}>" for v in range(256)]:
            raise TokenizerError(
                f"{path} lacks some of its 256 byte pieces: download the file again."
            )
    if trainer.model_type == PROTOS.TrainerSpec.UNIGRAM:
        return _unigram(pieces, unknown, byte_symbols), []
    if trainer.model_type == PROTOS.TrainerSpec.WORD:
        words = {
            piece.piece.encode("utf-8"): token
            for token, piece in enumerate(pieces)
            if piece.type in (KINDS.NORMAL, KINDS.USER_DEFINED)
        }
        begins = pattern_automaton({"Regex": f"{SPACE}[^{SPACE}]*|[^{SPACE}]+"})
        return WordLevel(words, unknown, byte_symbols, fuses_unknown=True), [Split(begins)]
    normal = {
        piece.piece: token for token, piece in enumerate(pieces) if piece.type == KINDS.NORMAL
    }
    characters, virtual = _character_symbols(normal, len(pieces))
    merges: list[tuple[int, int, int, int]] = []
    if trainer.model_type == PROTOS.TrainerSpec.BPE:
        merges = _merges(normal, [piece.score for piece in pieces], characters)
    bpe = Bpe(
        byte_symbols=byte_symbols or [-1] * 256,
        merges=merges,
        characters=[characters],
        virtual_characters=virtual,
        byte_fallback=byte_symbols is not None,
        unknown_id=unknown,
        fuses_unknown=True,
    )
    alone = SPACE in normal and not any(SPACE in token.lstrip(SPACE) for token in normal)
    return bpe, [words_at_spaces(SPACE)] if alone else []


def _unigram(pieces: list[Any], unknown: int, byte_symbols: list[int] | None) -> Unigram:
    normal = [np.float32(piece.score) for piece in pieces if piece.type == KINDS.NORMAL]
    best = max([_LEAST_MAX_SCORE, *normal])
    tokens, scores = {}, [0.0] * len(pieces)
    for token, piece in enumerate(pieces):
        if piece.type not in (KINDS.NORMAL, KINDS.USER_DEFINED):
            continue
        text = piece.piece.encode("utf-8")
        tokens[text] = token
        scores[token] = float(np.float32(piece.score))
        if piece.type == KINDS.USER_DEFINED:  # is always chosen
            scores[token] = float(np.float32(len(text)) * best) - 0.1
    worst = min(normal, default=np.float32(0))
    return Unigram(
        tokens=tokens,
        scores=scores,
        unknown_id=unknown,
        unknown_score=float(worst - _UNKNOWN_PENALTY),
        byte_symbols=byte_symbols,
        single_precision=True,
    )


def _decoder(model: Any) -> Decoder:
    normalizer = model.normalizer_spec
    pieces = list(model.pieces)
    texts: list[bytes] = []
    for piece in pieces:
        if piece.type == KINDS.BYTE:
            texts.append(bytes([int(piece.piece[3:5], 16)]))
        elif piece.type == KINDS.UNKNOWN:
            texts.append(model.trainer_spec.unk_surface.encode("utf-8"))
        elif piece.type == KINDS.CONTROL:
            texts.append(b"")
        else:
            texts.append(piece.piece.replace(SPACE, " ").encode("utf-8"))
    first = {
        token: text
        for token, (piece, text) in enumerate(zip(pieces, texts, strict=True))
        if piece.type in (KINDS.BYTE, KINDS.UNKNOWN) and text.startswith(b" ")
    }
    drops = normalizer.add_dummy_prefix or normalizer.remove_extra_whitespaces
    return Decoder(
        texts=texts,
        skipped=[token for token, text in enumerate(texts) if not text],
        first=first if drops else {},
        drops_first_space=drops,
        start_lasts=normalizer.remove_extra_whitespaces,
        replaces_each_byte=True,
        skipped_cut=True,
    )


def _character_symbols(tokens: dict[str, int], vocab_size: int) -> tuple[dict[int, int], list[int]]:
    """The symbols that merging starts from, and the characters of those that are not tokens.

    A character that is not a token, but part of one, gets a symbol after the vocabulary.
    """
    alphabet = sorted({ord(character) for token in tokens for character in token})
    virtual = [point for point in alphabet if chr(point) not in tokens]
    symbols = {point: tokens[chr(point)] for point in alphabet if chr(point) in tokens}
    return symbols | {point: vocab_size + at for at, point in enumerate(virtual)}, virtual


def _merges(
    normal: dict[str, int], scores: list[float], characters: dict[int, int]
) -> list[tuple[int, int, int, int]]:
    """Returns every pair that forms a piece; SentencePiece merges the best score first, then the
    leftmost."""
    levels = sorted({scores[token] for token in normal.values()}, reverse=True)
    rank_of_score = {score: rank for rank, score in enumerate(levels)}

    def symbol(text: str) -> int | None:
        return characters.get(ord(text)) if len(text) == 1 else normal.get(text)

    merges = []
    for piece, token in normal.items():
        for cut in range(1, len(piece)):
            left, right = symbol(piece[:cut]), symbol(piece[cut:])
            if left is not None and right is not None:
                merges.append((left, right, rank_of_score[scores[token]], token))
    return merges


def _refuse_unsupported(path: Path, model: Any) -> None:
    types = {piece.type for piece in model.pieces}
    is_bpe = model.trainer_spec.model_type == PROTOS.TrainerSpec.BPE
    kept = [piece.piece for piece in model.pieces if piece.type == KINDS.USER_DEFINED]
    removes_spaces = model.normalizer_spec.remove_extra_whitespaces
    refusals = {
        "user-defined pieces of several spaces, but removes extra spaces": removes_spaces
        and any("  " in piece for piece in kept),
        "no unknown piece": KINDS.UNKNOWN not in types,
        "unused pieces in a BPE model": is_bpe and KINDS.UNUSED in types,
        "a denormalizer": bool(model.denormalizer_spec.precompiled_charsmap),
    }
    for feature, present in refusals.items():
        if present:
            raise TokenizerError(
                f"{path} uses {feature}, which is not supported: use the model's tokenizer.json if "
                "it has one."
            )
