"""Cuts text into the windows of tokens that are scored, by the GPTQ paper's protocol."""

from dataclasses import dataclass

import torch
from torch import Tensor

from quant.errors import QuantError
from quant.measure.windows import Encode

_CHARACTERS_PER_TOKEN = 32  # more than any text has


@dataclass(frozen=True)
class ScoredText:
    """Windows int64 (seq_len,) each, and how many bytes of text a token of them stands for."""

    windows: list[Tensor]
    bytes_per_token: float


def score_windows(
    text: str,
    encode: Encode,
    context: int,
    tokens: int | None,
    bos_id: int | None,
    separator: str | None,
) -> ScoredText:
    """Cuts a text into windows that follow each other, the last one shorter than the others.

    Args:
        context: tokens of a window.
        tokens: take no more of the text than so many; None takes all.
        bos_id: begins the text, and each document where there are several.
        separator: what parts documents, not empty; white space around each is dropped.

    Raises:
        QuantError: no token of the text would be predicted.
    """
    documents = [text]
    if separator is not None:
        documents = [part.strip() for part in text.split(separator) if part.strip()]
    start = [] if bos_id is None else [bos_id]
    windows: list[Tensor] = []
    size, count, left = 0, 0, tokens
    for document in documents:
        if left is not None:
            document = document[: left * _CHARACTERS_PER_TOKEN]
        ids = encode(document)
        size, count = size + len(document.encode()), count + len(ids)
        if left is not None:
            ids = ids[:left]
            left -= len(ids)
        row = torch.tensor(start + ids, dtype=torch.int64)
        windows += [window for window in row.split(context) if len(window) > 1]
    if not windows:
        raise QuantError("the text is too short; at least two tokens are needed.")
    return ScoredText(windows, size / count)
