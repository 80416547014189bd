"""Reads the models of a `tokenizer.json`: what gives the pieces of a text their ids."""

from typing import Any

from exporter.tokenizer.byte_alphabet import byte_characters, token_to_bytes
from exporter.tokenizer.layout import joined
from exporter.tokenizer.specification import (
    Bpe,
    Bytes,
    Model,
    Step,
    Unigram,
    WordLevel,
    WordPiece,
)
from exporter.tokenizer.split_steps import SPACE, words_at_spaces

Json = dict[str, Any]
_UNKNOWN_PENALTY = 10.0  # of Unigram, below its least likely token


def read_model(model: Json, normalizers: list[Step], pre_tokenizers: list[Step]) -> Model:
    """Reads a model; changes the steps before it where that gives the same ids faster."""
    kind = model["type"]
    if kind == "Unigram":
        return _unigram(model)
    vocab: dict[str, int] = model["vocab"]
    if kind == "WordPiece":
        return WordPiece(
            tokens=_encoded(vocab),
            prefix=model.get("continuing_subword_prefix", "##"),
            unknown_id=vocab.get(model.get("unk_token", "[UNK]")),
            max_characters=model.get("max_input_chars_per_word", 100),
        )
    if kind == "WordLevel":
        return WordLevel(_encoded(vocab), vocab.get(model.get("unk_token", "<unk>")))
    return _bpe(model, normalizers, pre_tokenizers)


def vocabulary_of(model: Json) -> dict[str, int]:
    """Each token and its id; of a token that is listed twice, the last one."""
    if model["type"] == "Unigram":
        return {token: number for number, (token, _) in enumerate(model["vocab"])}
    return dict(model["vocab"])


def _encoded(vocab: dict[str, int]) -> dict[bytes, int]:
    return {token.encode("utf-8"): number for token, number in vocab.items()}


def _unigram(model: Json) -> Unigram:
    vocab = vocabulary_of(model)
    scores = [float(score) for _, score in model["vocab"]]
    byte_symbols = [vocab.get(f"<0x{value:02X}>", -1) for value in range(256)]
    return Unigram(
        tokens=_encoded(vocab),
        scores=scores,
        unknown_id=model.get("unk_id"),
        unknown_score=min(scores) - _UNKNOWN_PENALTY,
        byte_symbols=byte_symbols if model.get("byte_fallback") else None,
    )


def _bpe(model: Json, normalizers: list[Step], pre_tokenizers: list[Step]) -> Bpe:
    vocab: dict[str, int] = model["vocab"]
    prefix = model.get("continuing_subword_prefix") or ""
    suffix = model.get("end_of_word_suffix") or ""
    bpe = Bpe(
        byte_symbols=[vocab.get(f"<0x{value:02X}>", -1) for value in range(256)],
        merges=_merges(model, prefix),
        byte_fallback=bool(model.get("byte_fallback")),
        prefix=prefix,
        suffix=suffix,
        unknown_id=vocab.get(model["unk_token"]) if model.get("unk_token") else None,
        fuses_unknown=bool(model.get("fuse_unk")),
    )
    whole = vocab if model.get("ignore_merges") else None
    steps = [*normalizers, *pre_tokenizers]
    in_bytes = bool(pre_tokenizers) and isinstance(pre_tokenizers[-1], Bytes)
    if (
        in_bytes
        and not (prefix or suffix or bpe.byte_fallback)
        and sum(isinstance(step, Bytes) for step in steps) == 1
    ):
        # The bytes themselves, not the characters that stand for them.
        pre_tokenizers.pop()
        bpe.byte_symbols = [vocab.get(character, -1) for character in byte_characters()]
        if whole is not None:
            decoded = ((token_to_bytes(token), number) for token, number in whole.items())
            bpe.whole_words = {token: number for token, number in decoded if token}
        return bpe
    if whole is not None:
        bpe.whole_words = _encoded({token: number for token, number in whole.items() if token})
    bpe.characters = [
        _characters(vocab, before, behind) for behind in ("", suffix) for before in ("", prefix)
    ]
    if not (prefix or suffix):
        del bpe.characters[1:]
        if whole is None and _words_stand_alone(model):
            pre_tokenizers.append(words_at_spaces(SPACE))
    return bpe


def _characters(vocab: dict[str, int], before: str, behind: str) -> dict[int, int]:
    length = len(before) + 1 + len(behind)
    return {
        ord(token[len(before)]): number
        for token, number in vocab.items()
        if len(token) == length and token.startswith(before) and token.endswith(behind)
    }


def _words_stand_alone(model: Json) -> bool:
    """Whether no merge joins a space to what is before it, so that words merge on their own."""
    if SPACE not in model["vocab"]:
        return False
    pairs = (_pair(merge) for merge in model["merges"])
    return not any(right.startswith(SPACE) and not left.endswith(SPACE) for left, right in pairs)


def _pair(merge: str | list[str]) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _merges(model: Json, prefix: str) -> list[tuple[int, int, int, int]]:
    """(left, right, rank, merged)."""
    vocab: dict[str, int] = model["vocab"]
    merges: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, merge in enumerate(model["merges"]):
        left, right = _pair(merge)
        token = joined(left, right, prefix)
        assert token is not None  # check_document has seen it
        merges[vocab[left], vocab[right]] = rank, vocab[token]
    return [(*pair, *outcome) for pair, outcome in merges.items()]
