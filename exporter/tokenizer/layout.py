"""Checks the layout of a `tokenizer.json` before anything in it is used."""

import math
import reprlib
from typing import Any

MAX_VOCAB_SIZE = 1 << 24

_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")
_STEPS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_PARTS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
_MAX_DEPTH = 16


class LayoutError(ValueError):
    """What is wrong at one place of a document, as the end of a sentence."""


def check_document(document: dict[str, Any]) -> None:
    """Raises LayoutError at the first place that is not as every reader expects."""
    model = _object(document.get("model"), "model")
    kind = model.get("type")
    if kind is not None:
        _text(kind, "model.type")
    if isinstance(model.get("vocab"), list):
        _check_scores(model["vocab"])
    else:
        _check_vocab(model)
    if kind in ("BPE", None) and "merges" in model or kind == "BPE":
        _check_merges(model)
    added = document.get("added_tokens")
    for index, token in enumerate(_list([] if added is None else added, "added_tokens")):
        _check_added(token, f"added_tokens[{index}]")
    for name in _STEPS:
        _check_step(document.get(name), name, _PARTS[name], 0)


def check_vocab_and_merges(model: dict[str, Any]) -> None:
    """The same for a BPE model's two tables."""
    _check_vocab(model)
    _check_merges(model)


def _check_vocab(model: dict[str, Any]) -> None:
    vocab = _object(model.get("vocab"), "vocab")
    for token, number in vocab.items():
        _text(token, "a token of the vocab")
        _check_id(number, f"the id of the vocab's {reprlib.repr(token)}")
    if not vocab:
        raise LayoutError("the vocab is empty")


def _check_scores(vocab: list[Any]) -> None:
    """Unigram's list of tokens with their scores."""
    for index, entry in enumerate(vocab):
        where = f"vocab[{index}]"
        if not isinstance(entry, list) or len(entry) != 2:
            raise LayoutError(f"{where} is {reprlib.repr(entry)}, not a token with its score")
        _text(entry[0], where)
        if type(entry[1]) not in (int, float) or not math.isfinite(entry[1]):
            raise LayoutError(f"the score of {where} is {reprlib.repr(entry[1])}, not a number")
    if not vocab:
        raise LayoutError("the vocab is empty")
    if len(vocab) > MAX_VOCAB_SIZE:
        raise LayoutError(f"the vocab has {len(vocab)} tokens")


def _check_merges(model: dict[str, Any]) -> None:
    vocab = model["vocab"]
    prefix = model.get("continuing_subword_prefix")
    prefix = "" if prefix is None else _text(prefix, "model.continuing_subword_prefix")
    for index, merge in enumerate(_list(model.get("merges"), "merges")):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if (
            not isinstance(parts, list)
            or len(parts) != 2
            or not all(isinstance(part, str) for part in parts)
        ):
            raise LayoutError(f"merges[{index}] is {reprlib.repr(merge)}, not a pair of tokens")
        whole = joined(parts[0], parts[1], prefix)
        if whole is None:
            raise LayoutError(
                f"merges[{index}] is {reprlib.repr(merge)}, whose second token is shorter than the "
                f"continuing_subword_prefix {reprlib.repr(prefix)}"
            )
        for token in (*parts, whole):
            if token not in vocab:
                raise LayoutError(
                    f"merges[{index}] needs the token {reprlib.repr(token)}, which the vocab lacks"
                )


def joined(left: str, right: str, prefix: str) -> str | None:
    """The token that two others become: the right one without the prefix of a word's later ones.

    The library counts the prefix's characters, and cuts as many bytes; None where it cannot.
    """
    rest = right.encode("utf-8")
    if len(prefix) > len(rest):
        return None
    try:
        return left + rest[len(prefix) :].decode("utf-8")
    except UnicodeDecodeError:
        return None


def _check_added(token: Any, where: str) -> None:
    fields = _object(token, where)
    if not _text(fields.get("content"), f"{where}.content"):
        raise LayoutError(f"{where}.content is empty")
    _check_id(fields.get("id"), f"{where}.id")
    for name in _FLAGS:
        flag = fields.get(name)
        if flag is not None and not isinstance(flag, bool):
            raise LayoutError(f"{where}.{name} is {reprlib.repr(flag)}, not true or false")


def _check_step(step: Any, where: str, parts: str, depth: int) -> None:
    if step is None:
        return
    fields = _object(step, where)
    kind = _text(fields.get("type"), f"{where}.type")
    if kind == "Sequence":
        if depth == _MAX_DEPTH:
            raise LayoutError(f"{where} is nested in {_MAX_DEPTH} sequences")
        for index, part in enumerate(_list(fields.get(parts), f"{where}.{parts}")):
            _object(part, f"{where}.{parts}[{index}]")
            _check_step(part, f"{where}.{parts}[{index}]", parts, depth + 1)
    elif kind == "Split":
        (pattern,) = _object(fields.get("pattern"), f"{where}.pattern").values() or (None,)
        _text(pattern, f"{where}.pattern")
    elif kind == "TemplateProcessing":
        _check_template(fields, where)


def _check_template(fields: dict[str, Any], where: str) -> None:
    """Checks the pieces around a text: special tokens, whose names must be listed."""
    tokens = _object(fields.get("special_tokens"), f"{where}.special_tokens")
    pieces = _list(fields.get("single"), f"{where}.single")
    if not pieces:
        raise LayoutError(f"{where}.single is empty")
    for index, piece in enumerate(pieces):
        at = f"{where}.single[{index}]"
        if "SpecialToken" not in _object(piece, at):
            continue
        special = _object(piece["SpecialToken"], f"{at}.SpecialToken")
        name = _text(special.get("id"), f"{at}.SpecialToken.id")
        entry = _object(tokens.get(name), f"{where}.special_tokens[{reprlib.repr(name)}]")
        ids = _list(entry.get("ids"), f"{where}.special_tokens[{reprlib.repr(name)}].ids")
        if not ids:
            raise LayoutError(f"{where}.special_tokens[{reprlib.repr(name)}].ids is empty")
        for number in ids:
            _check_id(number, f"an id of {where}.special_tokens[{reprlib.repr(name)}]")


def _check_id(value: Any, where: str) -> None:
    if type(value) is not int or not 0 <= value < MAX_VOCAB_SIZE:
        raise LayoutError(f"{where} is {reprlib.repr(value)}, not a token id")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LayoutError(f"{where} is {reprlib.repr(value)}, not an object")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise LayoutError(f"{where} is {reprlib.repr(value)}, not a list")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise LayoutError(f"{where} is {reprlib.repr(value)}, not a string")
    if any(0xD800 <= ord(character) < 0xE000 for character in value):
        raise LayoutError(f"{where} has an unpaired surrogate: {reprlib.repr(value)}")
    return value
