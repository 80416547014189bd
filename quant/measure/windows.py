"""Text to windows of tokens: the larger part for calibration, the rest held out for evaluation."""

from collections.abc import Callable

import torch
from torch import Tensor

from quant.errors import QuantError

Encode = Callable[[str], list[int]]  # text to token ids, no BOS

WINDOW = 256
CALIBRATION_TOKENS = 128 * WINDOW
CALIBRATION_TOKENS_LARGE = 64 * WINDOW
EVALUATION_TOKENS = 8 * WINDOW
EVALUATION_TOKENS_LARGE = 4 * WINDOW
_LARGE = 100_000_000  # weights: from here on minutes matter
_LARGER = 500_000_000  # from here on the evaluation takes most of an export without calibration
_CALIBRATION_SHARE = 0.9  # of the text; the rest is held out
_CHARACTERS_PER_TOKEN = 32  # more than any text has: a long one need not be encoded whole


def default_calibration_tokens(weights: int) -> int:
    """How many tokens GPTQ uses by default for a model of so many weights."""
    return CALIBRATION_TOKENS if weights < _LARGE else CALIBRATION_TOKENS_LARGE


def evaluation_tokens(weights: int) -> int:
    """How many held-out tokens an export measures the quality of so many weights on."""
    return EVALUATION_TOKENS if weights < _LARGER else EVALUATION_TOKENS_LARGE


def calibration_windows(
    text: str, encode: Encode, tokens: int, window: int = WINDOW, bos_id: int | None = None
) -> Tensor:
    """Windows of the first nine tenths of a text.

    They are spread evenly over it (over its beginning, if it is much longer than needed); if it
    holds fewer than requested, all of it is used.

    Args:
        tokens: how many in all; rounded up to whole windows.
        window: tokens of one window, with its BOS.
        bos_id: begins every window; None: there is none.

    Returns:
        int64 (windows, window).

    Raises:
        QuantError: the text does not fill one window.
    """
    return _windows(text[: _split(text)], encode, tokens, window, bos_id, "calibration")


def evaluation_windows(
    text: str, encode: Encode, tokens: int, window: int = WINDOW, bos_id: int | None = None
) -> Tensor:
    """The same of the last tenth of a text, which calibration never sees."""
    return _windows(held_out_part(text), encode, tokens, window, bos_id, "evaluation")


def held_out_part(text: str) -> str:
    """The last tenth of a text, which calibration never sees."""
    return text[_split(text) :]


def _split(text: str) -> int:
    """Where the held-out part begins: at a line's start when there is one near."""
    middle = int(len(text) * _CALIBRATION_SHARE)
    line_end = text.find("\n", max(middle - 1, 0), middle + len(text) // 50)
    return middle if line_end < 0 else line_end + 1


def _windows(
    text: str, encode: Encode, tokens: int, window: int, bos_id: int | None, purpose: str
) -> Tensor:
    start = [] if bos_id is None else [bos_id]
    body = window - len(start)
    if body < 2:
        raise QuantError(
            f"a window of {window} tokens is too short; one token has to predict the next: "
            "ask for more."
        )
    needed = max(1, -(-tokens // window))
    ids = encode(text[: needed * body * _CHARACTERS_PER_TOKEN])
    available = len(ids) // body
    if available == 0:
        raise QuantError(
            f"the {purpose} part of the text is too short ({len(ids)} of {body} tokens, which is "
            "one window): give a longer text."
        )
    count = min(needed, available)
    starts = [index * (len(ids) - body) // max(count - 1, 1) for index in range(count)]
    return torch.tensor([start + ids[at : at + body] for at in starts], dtype=torch.int64)
