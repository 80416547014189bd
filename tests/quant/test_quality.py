"""KL, perplexity and top-1 in slices equal the textbook formulas at once."""

import math

import pytest
import torch
from torch.nn import functional as F

from quant.measure.format_numbers import with_error
from quant.measure.quality import LogitComparison, compare_logits


def logits(positions: int, vocab_size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(positions, vocab_size, generator=generator) * 4
    other = reference + torch.randn(positions, vocab_size, generator=generator) * 0.3
    targets = torch.randint(0, vocab_size, (positions,), generator=generator)
    return reference, other, targets


def test_figures_equal_the_formulas() -> None:
    reference, other, targets = logits(50, 9000)  # three slices
    quality = compare_logits(reference, other, targets)
    log_p, log_q = reference.double().log_softmax(-1), other.double().log_softmax(-1)
    kl = (log_p.exp() * (log_p - log_q)).sum(-1)
    assert quality.tokens == 50
    assert quality.kl == pytest.approx(kl.mean().item(), rel=1e-4)
    assert quality.kl_error == pytest.approx(kl.std().item() / math.sqrt(50), rel=1e-3)
    for values, perplexity, error in (
        (log_p, quality.perplexity_float, quality.perplexity_float_error),
        (log_q, quality.perplexity_quantized, quality.perplexity_quantized_error),
    ):
        loss = F.nll_loss(values, targets, reduction="none")
        assert perplexity == pytest.approx(loss.mean().exp().item(), rel=1e-5)
        expected = loss.mean().exp().item() * loss.std().item() / math.sqrt(50)
        assert error == pytest.approx(expected, rel=1e-4)
    same = reference.argmax(-1) == other.argmax(-1)
    assert quality.top1 == pytest.approx(same.double().mean().item())


@pytest.mark.parametrize("width", [1, 7, 64])
def test_slices_of_any_width_give_the_same(width: int) -> None:
    reference, other, targets = logits(20, 64)
    comparison = LogitComparison(targets)
    for start in range(0, 64, width):
        comparison.add(reference[:, start : start + width], other[:, start : start + width])
    whole, sliced = compare_logits(reference, other, targets), comparison.result()
    for name, value in whole.to_dict().items():
        assert sliced.to_dict()[name] == pytest.approx(value, rel=1e-4, abs=1e-7)


def test_equal_models_differ_by_nothing() -> None:
    reference, _, targets = logits(30, 300)
    quality = compare_logits(reference, reference, targets)
    assert quality.kl == 0 and quality.top1 == 1
    assert quality.perplexity_float == quality.perplexity_quantized


def test_large_logits_do_not_overflow() -> None:
    reference, other, targets = logits(10, 100)
    quality = compare_logits(reference * 1e4, other * 1e4, targets)
    assert all(math.isfinite(value) for value in quality.to_dict().values())
    shifted = compare_logits(reference + 3e4, other - 3e4, targets)
    assert shifted.kl == pytest.approx(compare_logits(reference, other, targets).kl, rel=0.05)


def test_batches_of_windows_are_flattened() -> None:
    reference, other, targets = logits(24, 50)
    flat = compare_logits(reference, other, targets)
    windows = compare_logits(reference.view(4, 6, 50), other.view(4, 6, 50), targets.view(4, 6))
    assert flat == windows


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.08284, 0.00181, "0.0828 ± 0.0018"),
        (0.00079, 0.000016, "0.00079 ± 0.00002"),
        (0.0, 0.0, "0.0000 ± 0.0000"),
        (1.0, 1e-30, "1.000000000 ± 0.000000000"),
        (4.5e64, 3e64, "4.500e+64 ± 3.000e+64"),
    ],
)
def test_figures_are_short_and_an_error_is_not_shown_as_zero(
    value: float, error: float, text: str
) -> None:
    assert with_error(value, error, 4) == text
