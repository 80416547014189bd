"""Does the finished file compute what the quantized model computes? Asked before it is kept."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from exporter.errors import ExportError
from exporter.model import CausalLM

Step = Callable[[Tensor, Tensor], Tensor]

# Both sides round activations to int8; where a sum falls on the edge between two integers the
# order of additions decides, and one flipped step of 1/255 of a token's range moves the logits by
# up to a few thousandths of their norm, more through further layers. A wrong zero point, scale or
# mask moves them by 0.15 and more.
QUANTIZED_TOLERANCE = 0.03
# Float32 against float32: 1e-6 each layer, summed in another order.
FLOAT_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Agreement:
    """The lowered program beside the eager model on the same tokens.

    Attributes:
        positions: logit vectors compared.
        error: root-mean-square difference over the logits' deviation, all positions together.
        kl: mean KL divergence (eager || lowered), nats.
        top1: share of positions with the same most likely token.
    """

    positions: int
    error: float
    kl: float
    top1: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@torch.no_grad()
def compare_with_eager(model: CausalLM, step: Step, tokens: Tensor) -> Agreement:
    """Feeds the same tokens to both in pieces of many, one, two and one token at a time.

    Args:
        model: eager, with its cache set up.
        step: the finished program.
        tokens: int64 (seq_len,), at least one and at most the context.
    """
    lengths, left = [], len(tokens)
    for length in (max(1, left - 8), 1, 2, *[1] * 5):
        if length <= left:
            lengths.append(length)
            left -= length
    expected, got, at = [], [], 0
    for length in lengths:
        piece, input_pos = tokens[None, at : at + length], torch.tensor([at])
        expected.append(model(piece, input_pos))
        got.append(step(piece, input_pos))
        at += length
    want, have = torch.cat(expected), torch.cat(got)  # (positions, vocab_size)
    spread = (want - want.mean(-1, keepdim=True)).norm()
    log_want, log_have = want.log_softmax(-1), have.log_softmax(-1)
    return Agreement(
        positions=len(want),
        error=((want - have).norm() / spread).item(),
        kl=(log_want.exp() * (log_want - log_have)).sum(-1).mean().clamp(min=0).item(),
        top1=(want.argmax(-1) == have.argmax(-1)).float().mean().item(),
    )


def require_agreement(agreement: Agreement, quantized: bool) -> None:
    """Raises ExportError where the lowered program computes something else."""
    limit = QUANTIZED_TOLERANCE if quantized else FLOAT_TOLERANCE
    if not agreement.error <= limit:
        raise ExportError(
            f"The lowered program's logits differ from the quantized model's by "
            f"{agreement.error:.2g} of their deviation, and at most {limit:g} is rounding; nothing "
            "was written: export with another --quant or --delegate, and report this."
        )
