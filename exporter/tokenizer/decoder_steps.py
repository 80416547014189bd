"""Reads the decoders of a `tokenizer.json`: how tokens become text.

The effect of the steps on a single token is computed here, once for each place it may have in a
text; the runner applies the steps that change the joined text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, decoders

from exporter.tokenizer.byte_alphabet import token_to_bytes
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.specification import Decoder, Finish, FinishKind

Json = dict[str, Any]
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_JOINING = ("Fuse", "ByteLevel")
_CLEANED = (
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't")),
    *((" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)


@dataclass(frozen=True)
class _Place:
    """The place of a token in a text."""

    first: bool = False
    last: bool = False


def compile_decoder(
    contents: list[str | None], skipped: set[int], steps: list[Json] | None
) -> Decoder:
    """Compiles the decoders.

    Args:
        contents: each id's token; None where it has none.
        skipped: the special ones.
        steps: None: there is no decoder, and tokens are joined by spaces.

    Raises:
        TokenizerError: a step, or an order of steps, that is not supported.
    """
    if steps is None:
        steps = [{"type": "Spaces"}]
    kinds = [step["type"] for step in steps]
    for kind in kinds:
        if kind not in _READERS and kind not in (*_JOINING, "ByteFallback"):
            raise _unsupported(f"the decoder {kind!r}")
    joined_at = next((at for at, kind in enumerate(kinds) if kind in _JOINING), len(kinds))
    single, behind = steps[:joined_at], steps[joined_at:]
    fallback = "ByteFallback" in kinds
    if fallback:
        if kinds.index("ByteFallback") != len(single) - 1 or "ByteLevel" in kinds[: joined_at + 1]:
            raise _unsupported("a decoder ByteFallback that is not followed by Fuse")
        single = single[:-1]
    byte_level = bool(behind) and behind[0]["type"] == "ByteLevel"
    ids = [number for number, token in enumerate(contents) if token and number not in skipped]
    missing = {number for number, token in enumerate(contents) if token is None}

    def text(number: int, place: _Place) -> bytes:
        token = contents[number] or ""
        for step in single:
            token = _READERS[step["type"]](step, token, place)
        if byte_level:
            decoded = token_to_bytes(token)
            return token.encode("utf-8") if decoded is None else decoded
        match = _BYTE_TOKEN.fullmatch(token) if fallback else None
        return bytes([int(match[1], 16)]) if match else token.encode("utf-8")

    def texts(place: _Place) -> dict[int, bytes]:
        return {number: text(number, place) for number in ids}

    amid = texts(_Place())
    decoder = Decoder(
        texts=[amid.get(number, b"") for number in range(len(contents))],
        skipped=sorted(skipped | missing),
        replaces_each_byte=fallback,
        finish=_finish(behind[1:]),
    )
    singles = {step["type"] for step in single}
    if singles & {"Metaspace", "WordPiece", "Spaces"}:
        first = texts(_Place(first=True))
        decoder.drops_first_space, decoder.first = _exceptions(
            amid, first, lambda text: text.removeprefix(b" ")
        )
    if "BPEDecoder" in singles:
        if singles & {"Metaspace", "WordPiece"}:
            raise _unsupported("a decoder BPEDecoder beside Metaspace or WordPiece")
        last = texts(_Place(last=True))
        decoder.drops_last_space, decoder.last = _exceptions(
            amid, last, lambda text: text.removesuffix(b" ")
        )
    return decoder


def _exceptions(
    amid: dict[int, bytes], there: dict[int, bytes], drop: Callable[[bytes], bytes]
) -> tuple[bool, dict[int, bytes]]:
    """Whether to drop a space by rule, and the tokens whose text differs from the rule."""

    def others(rule: Callable[[bytes], bytes]) -> dict[int, bytes]:
        return {number: text for number, text in there.items() if text != rule(amid[number])}

    with_rule, without = others(drop), others(lambda text: text)
    return (True, with_rule) if len(with_rule) < len(without) else (False, without)


def _replace(step: Json, token: str, _: _Place) -> str:
    pattern = step["pattern"]
    if pattern.get("String"):
        return token.replace(pattern["String"], step["content"])
    regex = Regex(pattern.get("Regex", ""))  # the empty text is found between all characters
    return str(decoders.Replace(regex, step["content"]).decode([token]))


def _strip(step: Json, token: str, _: _Place) -> str:
    character = step["content"]
    left = len(token) - len(token.lstrip(character))
    token = token[min(left, step["start"]) :]
    right = len(token) - len(token.rstrip(character))
    return token[: len(token) - min(right, step["stop"])]


def _metaspace(step: Json, token: str, place: _Place) -> str:
    drops = place.first and step["prepend_scheme"] != "never"
    return token.replace(step["replacement"], "" if drops else " ")


def _word_piece(step: Json, token: str, place: _Place) -> str:
    if not place.first:
        prefix = step["prefix"]
        token = token[len(prefix) :] if token.startswith(prefix) else f" {token}"
    if step["cleanup"]:
        for dirty, clean in _CLEANED:
            token = token.replace(dirty, clean)
    return token


def _bpe(step: Json, token: str, place: _Place) -> str:
    if not step["suffix"]:
        raise _unsupported("a decoder BPEDecoder without a suffix")
    return token.replace(step["suffix"], "" if place.last else " ")


def _spaces(_: Json, token: str, place: _Place) -> str:
    return token if place.first else f" {token}"


_READERS: dict[str, Callable[[Json, str, _Place], str]] = {
    "BPEDecoder": _bpe,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Spaces": _spaces,
    "Strip": _strip,
    "WordPiece": _word_piece,
}


def _finish(steps: list[Json]) -> list[Finish]:
    """The steps after the one that joins: they see the complete text as one token."""
    finish: list[Finish] = []
    for step in steps:
        kind = step["type"]
        if kind == "Strip":
            for side, count in ((FinishKind.STRIP_LEFT, "start"), (FinishKind.STRIP_RIGHT, "stop")):
                if step[count]:
                    finish.append(Finish(side, step["content"], count=step[count]))
        elif kind == "Replace" and len(step["pattern"].get("String", "")) == 1:
            pattern = step["pattern"]["String"]
            finish.append(Finish(FinishKind.REPLACE, pattern, text=step["content"]))
        elif kind == "Metaspace":
            text = " " if step["prepend_scheme"] == "never" else ""
            finish.append(Finish(FinishKind.REPLACE, step["replacement"], text=text))
        elif kind != "Fuse":
            raise _unsupported(f"the decoder {kind!r} after one that joins the tokens")
    return finish


def _unsupported(feature: str) -> TokenizerError:
    return TokenizerError(
        f"the tokenizer.json uses {feature}, which is not supported: Metaspace, WordPiece, "
        "BPEDecoder, Replace and Strip are for each token, then ByteFallback, Fuse or ByteLevel, "
        "then Strip and the Replace of one character."
    )
