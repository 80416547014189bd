"""A text's positions that every file is scored on, with the float model's logits there."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Logits = Callable[[NDArray[np.int64], int], Iterable[NDArray[np.float32]]]


class ScoredText:
    """Keeps the float model's logits in a file: of a large vocabulary they are gigabytes.

    Args:
        tokens: int64 (chunks, width); of each chunk, the predictions behind token `first` count.
        logits: of the float model: a chunk without its last token, and `first`, to float32 pieces
            (any, vocab_size) that follow each other.
        path: of the file.
    """

    def __init__(self, tokens: NDArray[np.int64], first: int, logits: Logits, path: Path) -> None:
        self._tokens, self._first = tokens, first
        with open(path, "wb") as file:
            for chunk in tokens:
                for piece in logits(chunk[:-1], first):
                    file.write(np.ascontiguousarray(piece, dtype=np.float32).tobytes())
        count = len(tokens) * (tokens.shape[1] - 1 - first)
        self._wanted = np.memmap(path, np.float32, "r").reshape(count, -1)

    def compare(self, logits: Logits) -> tuple[float, float]:
        """KL divergence of another model from the float one, in nats, and its standard error."""
        kl, at = [], 0
        for chunk in self._tokens:
            for piece in logits(chunk[:-1], self._first):
                wanted = _log_softmax(self._wanted[at : at + len(piece)])
                kl.append((np.exp(wanted) * (wanted - _log_softmax(piece))).sum(axis=1))
                at += len(piece)
        each = np.concatenate(kl)
        return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits - logits.max(axis=1, keepdims=True).astype(np.float64)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
