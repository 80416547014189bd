"""The probabilities of an answer's tokens, as the C library tells them."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.binding.library import TokenCallback


@dataclass(frozen=True)
class TokenLogprob:
    """A token of an answer, in the model's own distribution: its logits without bias, penalties,
    temperature and constraint.

    Attributes:
        token: its id.
        data: the bytes that it adds to a text, or a special token's text.
        logprob: the natural logarithm of its probability.
        top: token, bytes and logprob of the most likely tokens in its place, the most likely first.
    """

    token: int
    data: bytes
    logprob: float
    top: list[tuple[int, bytes, float]]


def collector(logprobs: list[TokenLogprob]) -> Callable[..., None]:
    """Returns a callback for the library that adds each token to a list."""

    def take(chosen: Any, top: Any, count: int, _context: Any) -> None:
        likeliest = [_entry(top[i]) for i in range(count)]
        logprobs.append(TokenLogprob(*_entry(chosen[0]), likeliest))

    return TokenCallback(take)


def _entry(token: Any) -> tuple[int, bytes, float]:
    return token.token, ctypes.string_at(token.text, token.size), token.logprob
