"""Checks what Python passes to the C interface, and converts it."""

import ctypes
import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.errors import RunnerError
from runtime.library import Options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_COUNT = 2**31 - 1


def sampling_options(
    max_new_tokens: int | None,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    seed: int | None,
) -> Options:
    """Returns the sampling options; without a seed, a new one every time.

    Raises:
        RunnerError: a value is out of range.
    """
    if max_new_tokens is not None:
        check("max_new_tokens", max_new_tokens, 1, MAX_COUNT)
    check("temperature", temperature, 0, 100)
    check("top_k", top_k, 0, MAX_COUNT)
    check("top_p", top_p, 0, 1)
    check("min_p", min_p, 0, 1)
    if seed is None:
        seed = secrets.randbits(64)
    check("seed", seed, 0, 2**64 - 1)
    return Options(max_new_tokens or 0, temperature, top_k, top_p, min_p, seed)


def token_ids(tokens: Sequence[int]) -> "NDArray[np.int32]":
    import numpy as np

    ids = np.asarray(tokens, dtype=None if len(tokens) else np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise RunnerError("tokens must be one row of whole numbers")
    if ids.size and not -(2**31) <= int(ids.min()) <= int(ids.max()) < 2**31:
        raise RunnerError("a token is not in the vocabulary: its number is too large")
    return ids.astype(np.int32)


def encoded(path: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise RunnerError(f"{encoded!r} contains a zero byte, which a file name must not")
    return encoded


def text_of(error: "ctypes.Array[ctypes.c_char]") -> str:
    return error.value.decode("utf-8", "replace")


def check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise RunnerError(f"{name} is {value}, but must be from {low} to {high}")
