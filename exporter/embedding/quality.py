"""How close the embeddings of a finished file are to those of the model in floats."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from exporter.catalogue.names import EMBEDDED
from exporter.errors import ExportError

SENTENCES = 200
_LEAST_WORDS, _MOST_WORDS = 4, 60
_FLOAT_ERROR = 1e-5  # of numbers of a row of length 1
_LEAST_COSINE = 0.9
Embed = Callable[[Sequence[int]], Tensor]  # tokens to a row (width,)


@dataclass(frozen=True)
class EmbeddingQuality:
    """
    Attributes:
        sentences: how many were embedded; they have no part in the export.
        cosine_worst, cosine_mean: of the file's embeddings with the float model's.
        error: the largest difference of two numbers, of rows of length 1.
    """

    sentences: int
    cosine_worst: float
    cosine_mean: float
    error: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def held_out_sentences() -> list[str]:
    """Returns sentences of the package's encyclopedia."""
    fitting = _sentences()
    step = max(1, len(fitting) // SENTENCES)
    return fitting[::step][:SENTENCES]


def calibration_text() -> str:
    """Returns the encyclopedia's other sentences, one behind the other."""
    held_out = set(held_out_sentences())
    return " ".join(sentence for sentence in _sentences() if sentence not in held_out)


def _sentences() -> list[str]:
    text = (EMBEDDED / "encyclopedia.txt").read_text(encoding="utf-8")
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    return [
        sentence for sentence in sentences if _LEAST_WORDS <= len(sentence.split()) <= _MOST_WORDS
    ]


@torch.no_grad()
def float_rows(model: torch.nn.Module, texts: Sequence[Sequence[int]]) -> Tensor:
    """Returns the embeddings of tokenized texts: float32 (texts, width)."""
    rows: dict[int, Tensor] = {}
    for length in sorted({len(tokens) for tokens in texts}):  # without padding, which changes rows
        alike = [at for at, tokens in enumerate(texts) if len(tokens) == length]
        embedded = model(torch.tensor([texts[at] for at in alike]))
        rows |= dict(zip(alike, embedded, strict=True))
    return torch.stack([rows[at] for at in range(len(texts))])


def compare(reference: Tensor, texts: Sequence[Sequence[int]], embed: Embed) -> EmbeddingQuality:
    """
    Args:
        reference: the model's embeddings, float32 (texts, width).
        texts: their tokens.
        embed: the finished file.
    """
    embedded = F.normalize(torch.stack([embed(tokens) for tokens in texts]), dim=-1)
    expected = F.normalize(reference, dim=-1)
    cosines = (embedded * expected).sum(-1)
    return EmbeddingQuality(
        sentences=len(texts),
        cosine_worst=float(cosines.min()),
        cosine_mean=float(cosines.mean()),
        error=float((embedded - expected).abs().max()),
    )


def require_quality(quality: EmbeddingQuality, quantized: bool) -> None:
    """Raises ExportError if the file's embeddings are not the model's."""
    right = quality.cosine_worst >= _LEAST_COSINE if quantized else quality.error <= _FLOAT_ERROR
    if not right:
        raise ExportError(
            f"The lowered program's embeddings differ from the model's: the worst cosine is "
            f"{quality.cosine_worst:.4g}, and numbers differ by up to {quality.error:.2g}. Nothing "
            "was written: export with another --quant, and report this."
        )
