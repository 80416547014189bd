"""How close the embeddings of a finished file are to those of the model in floats."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from exporter.catalogue.find import EMBEDDED
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
    text = (EMBEDDED / "encyclopedia.txt").read_text(encoding="utf-8")
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    fitting = [each for each in sentences if _LEAST_WORDS <= len(each.split()) <= _MOST_WORDS]
    step = max(1, len(fitting) // SENTENCES)
    return fitting[::step][:SENTENCES]


@torch.no_grad()
def float_rows(model: torch.nn.Module, texts: Sequence[Sequence[int]]) -> Tensor:
    """Returns the embeddings of tokenized texts: float32 (texts, width)."""
    return torch.cat([model(torch.tensor([tokens])) for tokens in texts])


def compare(reference: Tensor, texts: Sequence[Sequence[int]], embed: Embed) -> EmbeddingQuality:
    """
    Args:
        reference: the model's embeddings, float32 (texts, width).
        texts: their tokens.
        embed: the finished file.
    """
    found = F.normalize(torch.stack([embed(tokens) for tokens in texts]), dim=-1)
    wanted = F.normalize(reference, dim=-1)
    cosines = (found * wanted).sum(-1)
    return EmbeddingQuality(
        sentences=len(texts),
        cosine_worst=float(cosines.min()),
        cosine_mean=float(cosines.mean()),
        error=float((found - wanted).abs().max()),
    )


def require_quality(quality: EmbeddingQuality, quantized: bool) -> None:
    """Raises ExportError if the file's embeddings are not the model's."""
    right = quality.cosine_worst >= _LEAST_COSINE if quantized else quality.error <= _FLOAT_ERROR
    if not right:
        raise ExportError(
            f"The lowered program's embeddings differ from the model's: the worst cosine is "
            f"{quality.cosine_worst:.4g}, and numbers differ by up to {quality.error:.2g}; nothing "
            "was written: export with another --quant, and report this."
        )
