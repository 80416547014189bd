"""What a `tokenizer.json` must look like before anything in it is used."""

import reprlib
from typing import Any

MAX_VOCAB_SIZE = 1 << 24

_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")
_STEPS = ("normalizer", "pre_tokenizer", "post_processor")
_PARTS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
}
_MAX_DEPTH = 16


class LayoutError(ValueError):
    """What is wrong with one place of a document; the end of a sentence."""


def check_document(document: dict[str, Any]) -> None:
    """Raises LayoutError at the first place that is not what every reader relies on."""
    model = _object(document.get("model"), "model")
    kind = model.get("type", "BPE")
    _text(kind, "model.type")
    if kind != "BPE":
        return  # is refused by its name
    check_vocab_and_merges(model)
    added = document.get("added_tokens")
    for index, token in enumerate(_list([] if added is None else added, "added_tokens")):
        _check_added(token, f"added_tokens[{index}]")
    for name in _STEPS:
        _check_step(document.get(name), name, _PARTS[name], 0)


def check_vocab_and_merges(model: dict[str, Any]) -> None:
    """The same of a BPE model's two tables."""
    vocab = _object(model.get("vocab"), "vocab")
    for token, number in vocab.items():
        _text(token, "a token of the vocab")
        _check_id(number, f"the id of the vocab's {reprlib.repr(token)}")
    if not vocab:
        raise LayoutError("the vocab is empty")
    for index, merge in enumerate(_list(model.get("merges"), "merges")):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if (
            not isinstance(parts, list)
            or len(parts) != 2
            or not all(isinstance(part, str) for part in parts)
        ):
            raise LayoutError(f"merges[{index}] is no pair of tokens but {reprlib.repr(merge)}")
        for token in (*parts, "".join(parts)):
            if token not in vocab:
                raise LayoutError(
                    f"merges[{index}] needs the token {reprlib.repr(token)}, which the vocab lacks"
                )


def _check_added(token: Any, where: str) -> None:
    fields = _object(token, where)
    if not _text(fields.get("content"), f"{where}.content"):
        raise LayoutError(f"{where}.content is empty")
    _check_id(fields.get("id"), f"{where}.id")
    for name in _FLAGS:
        flag = fields.get(name)
        if flag is not None and not isinstance(flag, bool):
            raise LayoutError(f"{where}.{name} is not true or false but {reprlib.repr(flag)}")


def _check_step(step: Any, where: str, parts: str, depth: int) -> None:
    if step is None:
        return
    fields = _object(step, where)
    kind = _text(fields.get("type"), f"{where}.type")
    if kind == "Sequence":
        if depth == _MAX_DEPTH:
            raise LayoutError(f"{where} lies {_MAX_DEPTH} sequences deep")
        for index, part in enumerate(_list(fields.get(parts), f"{where}.{parts}")):
            _object(part, f"{where}.{parts}[{index}]")
            _check_step(part, f"{where}.{parts}[{index}]", parts, depth + 1)
    elif kind == "Split":
        (pattern,) = _object(fields.get("pattern"), f"{where}.pattern").values() or (None,)
        _text(pattern, f"{where}.pattern")
    elif kind == "TemplateProcessing":
        _check_template(fields, where)


def _check_template(fields: dict[str, Any], where: str) -> None:
    """The pieces that are put around one text: special tokens, by names that are listed."""
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
        raise LayoutError(f"{where} is no token id but {reprlib.repr(value)}")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LayoutError(f"{where} is not an object but {reprlib.repr(value)}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise LayoutError(f"{where} is not a list but {reprlib.repr(value)}")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise LayoutError(f"{where} is not a text but {reprlib.repr(value)}")
    if any(0xD800 <= ord(character) < 0xE000 for character in value):
        raise LayoutError(f"{where} is half a character: {reprlib.repr(value)}")
    return value
