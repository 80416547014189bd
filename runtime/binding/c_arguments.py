"""Checks what Python passes to the C interface, and converts it."""

import ctypes
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.binding.library import Piece
from runtime.errors import RunnerError, shown
from runtime.one_constraint import one_constraint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_COUNT = 2**31 - 1
MAX_THREADS = 256
Number = TypeVar("Number", bound=float)
JsonSchema = Mapping[str, Any] | bool | str  # a string: the schema as JSON


@dataclass(frozen=True)
class Constraint:
    """What an answer must be: thimble_constrain()'s kind and text."""

    kind: int
    text: bytes


ANY_TEXT = Constraint(0, b"")
RELAX = 16  # thimble.h's THIMBLE_RELAX, which is added to a kind


def constraint(
    json_schema: JsonSchema | None,
    regex: str | None,
    choice: Sequence[str] | None,
    grammar: str | None,
    schema_unsupported: str = "refuse",
) -> Constraint:
    """Returns the one constraint that is not None.

    Args:
        schema_unsupported: "refuse" or "relax": what is not supported of schemas is left out.

    Raises:
        RunnerError: several are given, the schema is not JSON, or the last is another word.
    """
    if schema_unsupported not in ("refuse", "relax"):
        raise RunnerError(
            f"schema_unsupported is {shown(schema_unsupported)}, but must be 'refuse' or 'relax'"
        )
    relax = RELAX if schema_unsupported == "relax" else 0
    if isinstance(choice, str):
        raise RunnerError(f"choice is the string {shown(choice)}, but must be a list of strings")
    try:
        texts = {
            "json_schema": json_schema if isinstance(json_schema, str) else _json(json_schema),
            "regex": None if regex is None else check_text("regex", regex),
            "choice": None if choice is None else _json(list(choice)),
            "grammar": None if grammar is None else check_text("grammar", grammar),
        }
    except (TypeError, ValueError, RecursionError) as error:
        raise RunnerError(f"the constraint cannot be written as JSON: {error}") from error
    given = one_constraint(texts.items())
    if given is None:
        return ANY_TEXT
    name, text = given
    kind = 1 + list(texts).index(name)
    return Constraint(kind + relax, text.encode("utf-8", "surrogatepass"))


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)


def token_ids(tokens: Sequence[int]) -> "NDArray[np.int32]":
    import numpy as np

    if isinstance(tokens, bytes) or not hasattr(tokens, "__len__"):
        raise RunnerError(f"tokens are {shown(tokens)}, but must be a list of whole numbers")
    ids = np.asarray(tokens, dtype=None if len(tokens) else np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise RunnerError("tokens must be one row of whole numbers")
    if ids.size and not -(2**31) <= int(ids.min()) <= int(ids.max()) < 2**31:
        raise RunnerError("a token is not in the vocabulary: its number is too large")
    return ids.astype(np.int32)


def piece_array(pieces: Iterable[tuple[str, bool]]) -> "ctypes.Array[Piece]":
    """Returns texts, each with whether it may contain special tokens, as the library takes them.

    Raises:
        RunnerError: they are something else.
    """
    if isinstance(pieces, str | bytes) or not isinstance(pieces, Iterable):
        raise RunnerError(
            f"pieces are {shown(pieces)}, but must be a list of pairs: a string and a bool"
        )
    arrays = []
    for piece in pieces:
        match piece:
            case (str(text), int(literal)):  # True or False
                data = utf8_of("a piece", text)
                arrays.append(Piece(data, len(data), literal))
            case _:
                raise RunnerError(
                    f"a piece is {shown(piece)}, but must be a string and True or False: whether "
                    "it may contain special tokens"
                )
    return (Piece * len(arrays))(*arrays)


def read_tokens(
    fill: Callable[["ctypes.Array[ctypes.c_int32]"], int], size: int, more: int
) -> list[int]:
    """Returns the tokens of a text of `size` bytes, which `fill` writes and counts.

    Nearly every text has at most a token for each byte and `more`; one that a normalizer makes
    longer is read again.
    """
    tokens = (ctypes.c_int32 * (size + more))()
    count = fill(tokens)
    if count > len(tokens):
        tokens = (ctypes.c_int32 * count)()
        count = fill(tokens)
    return tokens[:count]


def encoded(path: str | os.PathLike[str]) -> bytes:
    try:
        encoded = os.fsencode(os.path.expanduser(path))
    except (TypeError, UnicodeEncodeError):
        raise RunnerError(f"a file's name is {shown(path)}, but must be a path") from None
    if b"\0" in encoded:
        raise RunnerError(f"{shown(encoded)} contains a zero byte, which a file name must not")
    return encoded


def text_of(error: "ctypes.Array[ctypes.c_char]") -> str:
    return error.value.decode("utf-8", "replace")


def check(name: str, value: Number, low: float, high: float) -> Number:
    """Returns a number that is in its range.

    Raises:
        RunnerError: it is not.
    """
    if not isinstance(value, Real):
        raise RunnerError(f"{name} is {shown(value)}, but must be a number from {low} to {high}")
    if not low <= value <= high:
        raise RunnerError(f"{name} is {value}, but must be from {low} to {high}")
    return value


def check_whole(name: str, value: int, low: int, high: int) -> int:
    """Returns a whole number that is in its range.

    Raises:
        RunnerError: it is not.
    """
    if not isinstance(value, Integral):
        raise RunnerError(
            f"{name} is {shown(value)}, but must be a whole number from {low} to {high}"
        )
    return int(check(name, value, low, high))


def check_text(name: str, value: str) -> str:
    """Returns a value that is a string.

    Raises:
        RunnerError: it is not.
    """
    if not isinstance(value, str):
        raise RunnerError(f"{name} is {shown(value)}, but must be a string")
    return value


def utf8_of(name: str, value: str) -> bytes:
    """Returns a string in UTF-8. What a command line had that is none keeps its bytes, as in the
    runner.

    Raises:
        RunnerError: it is not a string, or has half of a surrogate pair.
    """
    text = check_text(name, value)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise RunnerError(
            f"{name} has half of a surrogate pair at character {error.start + 1}, which is no "
            "character; leave it out"
        ) from None
