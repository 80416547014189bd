"""Reads a SentencePiece BPE `tokenizer.model` with byte fallback (Llama 2 and similar models)."""

from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.specification import AddedToken, Alphabet, SpacePrefix, TokenizerSpec

_PROTOS: Any = sentencepiece_model_pb2  # protobuf creates its classes at run time
SPACE = "\u2581"  # how SentencePiece writes a space


def read_sentencepiece(path: Path) -> TokenizerSpec:
    """Reads a model into a spec.

    Raises:
        TokenizerError: the file is damaged, or uses an unsupported feature, which is named.
    """
    model = _PROTOS.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError:
        raise TokenizerError(
            f"{path} is not a readable SentencePiece model: download the file again."
        ) from None
    return read_model(model, path)


def read_model(model: Any, path: Path) -> TokenizerSpec:
    """Reads a parsed model into a spec.

    Raises:
        TokenizerError: it uses what is not supported; `path` is named.
    """
    _refuse_unsupported(path, model)
    kinds = _PROTOS.ModelProto.SentencePiece
    pieces = list(model.pieces)
    normal = {
        piece.piece: token for token, piece in enumerate(pieces) if piece.type == kinds.NORMAL
    }
    byte_symbols = [token for token, piece in enumerate(pieces) if piece.type == kinds.BYTE]
    if [pieces[token].piece for token in byte_symbols] != [f"<0x{v:02X}>" for v in range(256)]:
        raise TokenizerError(f"{path} lacks some of its 256 byte pieces: download the file again.")
    tokens = []
    for piece in pieces:
        if piece.type == kinds.BYTE:
            tokens.append(bytes([int(piece.piece[3:5], 16)]))
        elif piece.type == kinds.UNKNOWN:
            tokens.append(model.trainer_spec.unk_surface.encode("utf-8"))
        elif piece.type == kinds.CONTROL:
            tokens.append(b"")
        else:
            tokens.append(piece.piece.replace(SPACE, " ").encode("utf-8"))
    characters = character_symbols(normal, len(pieces))
    bos, eos = model.trainer_spec.bos_id, model.trainer_spec.eos_id
    return TokenizerSpec(
        tokens=tokens,
        alphabet=Alphabet.CHARACTERS,
        byte_symbols=byte_symbols,
        merges=_merges(normal, [piece.score for piece in pieces], characters),
        characters=characters,
        added_tokens=[
            AddedToken(piece.piece, token, special=True)
            for token, piece in enumerate(pieces)
            if piece.type == kinds.CONTROL
        ],
        space_prefix=(
            SpacePrefix.EVERY_SEGMENT
            if model.normalizer_spec.add_dummy_prefix
            else SpacePrefix.NONE
        ),
        strips_first_space=model.normalizer_spec.add_dummy_prefix,
        words_begin_at_spaces=spaces_only_lead(normal),
        bos_id=bos if bos >= 0 else None,
        adds_bos=bos >= 0,
        eos_ids=[eos] if eos >= 0 else [],
    )


def character_symbols(tokens: dict[str, int], vocab_size: int) -> dict[int, int]:
    """Returns the symbols that merging starts from: one for each character of `tokens`.

    A character that is only part of a token gets a symbol after the vocabulary: `vocab_size` plus
        its index among these code points, in ascending order. A space has the symbol of the
        character that SentencePiece writes for it.
    """
    alphabet = sorted({ord(character) for token in tokens for character in token} | {0x20})
    symbols = {
        point: tokens.get(chr(point), vocab_size + place) for place, point in enumerate(alphabet)
    }
    if ord(SPACE) in symbols:
        symbols[0x20] = symbols[ord(SPACE)]
    return symbols


def spaces_only_lead(tokens: dict[str, int]) -> bool:
    """Whether no token has a space after another character, so that words merge separately."""
    return not any(SPACE in token.lstrip(SPACE) for token in tokens)


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
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    kinds = _PROTOS.ModelProto.SentencePiece
    types = {piece.type for piece in model.pieces}
    refusals = {
        "a model that is not BPE (unigram, word or character)": (
            trainer.model_type != _PROTOS.TrainerSpec.BPE
        ),
        "no byte fallback": not trainer.byte_fallback,
        f"the normalization {normalizer.name!r}": bool(normalizer.precompiled_charsmap),
        "the removal of extra white space": normalizer.remove_extra_whitespaces,
        "spaces that are not escaped": not normalizer.escape_whitespaces,
        "white space as a suffix": trainer.treat_whitespace_as_suffix,
        "user-defined symbols": kinds.USER_DEFINED in types,
        "unused pieces": kinds.UNUSED in types,
    }
    for feature, present in refusals.items():
        if present:
            raise TokenizerError(
                f"{path} uses {feature}, which is not supported: only SentencePiece BPE with byte "
                "fallback and identity normalization is; use the model's tokenizer.json if it has "
                "one."
            )
