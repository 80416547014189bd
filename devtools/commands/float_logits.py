"""The float model's logits of a text, kept in a file, to compare many quantized files with."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from quant.measure.quality import compare_positions, summarize

Logits = Callable[[Tensor, int], Iterable[Tensor]]


class FloatLogits:
    """In a file because those of a large vocabulary are gigabytes.

    Args:
        tokens: int64 (chunks, width); of each chunk, the predictions behind token `first` count.
        logits: of the float model: a chunk without its last token, and `first`, to float32 pieces
            (any, vocab_size) that follow each other.
        path: of the file.
    """

    def __init__(self, tokens: Tensor, first: int, logits: Logits, path: Path) -> None:
        self._tokens, self._first = tokens, first
        with open(path, "wb") as file:
            for chunk in tokens:
                for piece in logits(chunk[:-1], first):
                    file.write(piece.numpy().tobytes())
        count = len(tokens) * (tokens.shape[1] - 1 - first)
        self._kept = np.memmap(path, np.float32, "r").reshape(count, -1)

    def compare(self, logits: Logits) -> tuple[float, float]:
        """KL divergence of another model from the float one, in nats, and its standard error."""
        parts, at = [], 0
        targets = self._tokens[:, self._first + 1 :].flatten()
        for chunk in self._tokens:
            for piece in logits(chunk[:-1], self._first):
                here = slice(at, at := at + len(piece))
                reference = torch.from_numpy(self._kept[here].copy())  # what is mapped is read-only
                parts.append(compare_positions(reference, piece, targets[here]))
        quality = summarize(parts)
        return quality.kl, quality.kl_error
