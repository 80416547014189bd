"""Checks, before a finished file is kept, that it computes what the quantized model computes."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.spec import ExpertsSpec
from quant.layers.embedding_and_head import head_logits
from quant.layers.walk import through_layers

if TYPE_CHECKING:
    from delegates import Step

TOKENS = 40
_SINGLE_STEPS = 5
_JITTER = 1e-6  # of the embedding: the effect of another order of a few float32 additions

# Both sides round activations to int8. When a sum lies between two integers, its last bit decides
# the rounding. One changed step of 1/255 of a token's range moves the logits by up to a few
# thousandths of their deviation, more through further layers, most in random models. This effect is
# measured: the model also runs on embeddings with jitter in their last bits, and the file may
# differ from the model by a few times that difference. A wrong zero point, scale or mask in a
# single layer moves the logits by 0.15 and more, in all layers by 1.
#
# Caches in float16 change the sums themselves, and so more roundings: in quantized models this is
# measured likewise, with jitter of that size.
#
# In a mixture either decides between experts with almost equal scores. Another expert moves its
# token's logits by all of their deviation, and later tokens' by a tenth. Which tokens it meets is
# chance: so several jitters are tried, and the median of the calls counts.
_QUANTIZED_FLOOR = 0.03
_FLOAT_FLOOR = 1e-3
_TIMES_JITTER = 4.0
_CACHE_JITTER = 1e-3
_TIMES_CACHE_JITTER = 1.5
_TIMES_CACHE_JITTER_OF_EXPERTS = 3.0
_CACHE_JITTERS_OF_EXPERTS = 6
_CEILING = 0.5


@dataclass(frozen=True)
class Reference:
    """The results of the eager model.

    Attributes:
        tokens: int64 (seq_len,).
        lengths: the number of tokens of each call.
        logits: float32 (calls, vocab_size), after each call.
        tolerance: the largest allowed Agreement.error of the file's logits.
        mixture: whether a token's logits depend on which experts its scores choose.
    """

    tokens: Tensor
    lengths: tuple[int, ...]
    logits: Tensor
    tolerance: float
    mixture: bool = False

    def error(self, logits: Tensor) -> float:
        """How far other logits of the calls are away: Agreement.error."""
        if not self.mixture:
            return _relative_error(self.logits, logits)
        return median(map(_relative_error, self.logits, logits))


@dataclass(frozen=True)
class Agreement:
    """The lowered program compared with the eager model on the same tokens.

    Attributes:
        positions: logit vectors compared.
        error: root-mean-square difference divided by the logits' deviation, over all positions;
               of a mixture of experts, the median of the positions'.
        tolerance: the largest error that rounding explains.
        kl: mean KL divergence (eager || lowered), nats.
        top1: share of positions with the same most likely token.
    """

    positions: int
    error: float
    tolerance: float
    kl: float
    top1: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@torch.no_grad()
def reference_logits(
    model: CausalLM,
    tokens: Tensor,
    max_seq_len: int,
    quantized: bool,
    release: Callable[[], None] = lambda: None,
) -> Reference:
    """Runs the eager model once, without its cache, for calls of many, one, two and one tokens.

    Args:
        tokens: int64 (seq_len,), at least one; at most TOKENS of them are used, by one rotary
                table.
        max_seq_len: the most tokens in one call.
        quantized: whether activations are rounded to int8.
        release: called after every layer, when the layer's memory may be released.
    """
    tokens = tokens[: min(TOKENS, model.config.original_context or TOKENS)]  # of one rotary table
    lengths, left = [], len(tokens)
    for most in (max(1, left - _SINGLE_STEPS - 3), 1, 2, *[1] * _SINGLE_STEPS):
        length = min(most, max_seq_len)
        if length <= left:
            lengths.append(length)
            left -= length
    ends = torch.tensor(lengths).cumsum(0) - 1

    feed_forwards = (layer.feed_forward for layer in model.config.layers)
    mixture = any(isinstance(part, ExpertsSpec) for part in feed_forwards)
    jitters = [(_JITTER, _TIMES_JITTER)]
    if quantized and mixture:
        jitters += [(_CACHE_JITTER, _TIMES_CACHE_JITTER_OF_EXPERTS)] * _CACHE_JITTERS_OF_EXPERTS
    elif quantized:
        jitters += [(_CACHE_JITTER, _TIMES_CACHE_JITTER)]
    embedded = model.embed(tokens[None])  # (1, seq_len, hidden_size)
    random = torch.Generator().manual_seed(0)
    noises = [torch.randn(embedded.shape[1:], generator=random) for _ in jitters]
    scaled = [1 + jitter * noise for (jitter, _), noise in zip(jitters, noises, strict=True)]
    hidden = torch.cat((embedded, *(embedded * scale for scale in scaled)))
    context = model.context(len(tokens))
    context = model.text_context(context, tokens.expand(len(hidden), -1), hidden)
    hidden = through_layers(model, hidden, context, release)
    logits, *jittered = head_logits(model, hidden[:, ends])  # each (calls, vocab_size)
    release()
    exact = Reference(tokens, tuple(lengths), logits, 0.0, mixture)
    explained = (
        times * exact.error(other) for (_, times), other in zip(jitters, jittered, strict=True)
    )
    tolerance = max(_QUANTIZED_FLOOR if quantized else _FLOAT_FLOOR, *explained)
    return replace(exact, tolerance=min(tolerance, _CEILING))


@torch.no_grad()
def compare(reference: Reference, step: "Step") -> Agreement:
    """Runs the finished program on the reference's tokens, call by call, and compares.

    Raises:
        ExportError: it cannot be run.
    """
    got, at = [], 0
    try:
        for length in reference.lengths:
            piece = reference.tokens[None, at : at + length]
            got.append(step(piece, torch.tensor([at])))
            at += length
    except RuntimeError as error:  # of ExecuTorch, as where no memory is left
        raise ExportError(f"The file could not be run to check it ({error}); try again.") from None
    want, have = reference.logits, torch.cat(got)
    log_want, log_have = want.log_softmax(-1), have.log_softmax(-1)
    return Agreement(
        positions=len(want),
        error=reference.error(have),
        tolerance=reference.tolerance,
        kl=(log_want.exp() * (log_want - log_have)).sum(-1).mean().clamp(min=0).item(),
        top1=(want.argmax(-1) == have.argmax(-1)).float().mean().item(),
    )


def require_agreement(agreement: Agreement) -> None:
    """Raises ExportError if the lowered program's results differ too much."""
    if not agreement.error <= agreement.tolerance:
        raise ExportError(
            f"The lowered program's logits differ from the model's by {agreement.error:.2g} of "
            f"their deviation, but rounding explains only {agreement.tolerance:.2g}. Nothing was "
            "written: export with another --quant or --delegate, and report this."
        )


def _relative_error(want: Tensor, have: Tensor) -> float:
    if torch.equal(want, have):
        return 0.0  # also if all logits are equal and have no deviation
    spread = (want - want.mean(-1, keepdim=True)).norm()
    return ((want - have).norm() / spread).item()
