"""Corrections for drifted inputs, each against its definition in float64."""

import pytest
import torch
from support.calibration_sums import accumulate_hessian, input_drift, wanted_of_residual
from torch import Tensor
from torch.nn import functional as F

from quant.baselines.drift import gptaq_carry, qronos_first
from quant.rounding.drift import (
    aimed,
    corrected,
    correction,
    shrunk_aim,
    shrunk_correction,
    shrunk_share,
)
from quant.rounding.gptq import gptq, inverse_factor
from quant.rounding.scales import TwoLevelScales, searched_scales

TOKENS, COLUMNS, ROWS, GROUP = 600, 64, 24, 32
FREE = 1e-4  # percent of damping: as good as none, so that closed forms can be compared


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def drifted() -> tuple[Tensor, Tensor, Tensor]:
    """W (rows, columns), X and X' (tokens, columns): correlated, a tenth apart."""
    mix = normal(COLUMNS, COLUMNS, seed=1) / COLUMNS**0.5
    x = normal(TOKENS, COLUMNS, seed=2) @ mix
    gap = 0.1 * (x @ normal(COLUMNS, COLUMNS, seed=3) / COLUMNS**0.5 + normal(*x.shape, seed=4))
    return normal(ROWS, COLUMNS, seed=5), x, x + gap


def distance(weight: Tensor, x: Tensor, other: Tensor, other_x: Tensor) -> float:
    return (x @ weight.T - other_x @ other.T).square().sum().item()


def dequantize(values: Tensor, scales: TwoLevelScales) -> Tensor:
    return (values.unflatten(1, (-1, GROUP)) * scales.product().unsqueeze(2)).flatten(1)


def test_the_correction_is_the_least_squares_answer(drifted: tuple[Tensor, Tensor, Tensor]) -> None:
    weight, x, moved = drifted
    factor = inverse_factor(accumulate_hessian([moved], COLUMNS), FREE)
    drift = input_drift([(x[:200], moved[:200]), (x[200:], moved[200:])], COLUMNS)
    found = corrected(weight, weight @ drift, factor, 1.0)
    wanted = torch.linalg.lstsq(moved.double(), (x @ weight.T).double()).solution.T
    # float32, and a condition number of about 1e4
    assert torch.allclose(found.double(), wanted, atol=1e-2)
    shared = weight + weight @ correction(drift, factor, 1.0)
    assert torch.allclose(shared, found, atol=1e-2)
    assert distance(weight, x, found, moved) < 0.7 * distance(weight, x, weight, moved)


def test_no_drift_needs_no_correction(drifted: tuple[Tensor, Tensor, Tensor]) -> None:
    weight, x, _ = drifted
    factor = inverse_factor(accumulate_hessian([x], COLUMNS))
    drift = input_drift([(x, x)], COLUMNS)
    assert torch.equal(corrected(weight, weight @ drift, factor, 1.0), weight)
    assert torch.count_nonzero(gptaq_carry(drift, factor, 1.0)) == 0


@pytest.mark.parametrize("share", [1.0, 0.75])
def test_the_residual_form_needs_no_float_inputs(
    drifted: tuple[Tensor, Tensor, Tensor], share: float
) -> None:
    """Against C H^-1 with C = W D + r^T X'; a column of zeros among the inputs stays as it is."""
    weight, x, moved = drifted
    moved[:, 7] = 0
    hessian = accumulate_hessian([moved], COLUMNS)
    factor = inverse_factor(hessian)
    residual = normal(TOKENS, ROWS, seed=6)
    correlation = weight @ input_drift([(x, moved)], COLUMNS) + 2 / TOKENS * residual.T @ moved
    direct = corrected(weight, correlation, factor, share)
    wanted = x @ weight.T + residual
    pairs = [(wanted[:100], moved[:100]), (wanted[100:], moved[100:])]
    found = aimed(weight, wanted_of_residual(pairs, weight), hessian, factor, share)
    assert torch.allclose(found, direct, atol=1e-4)
    assert torch.allclose(found[:, 7], weight[:, 7], atol=1e-6)


def f_shares(x: Tensor, wanted: Tensor) -> Tensor:
    """1 - 1 / F of least squares in float64, from what each leaves of the text, 0 to 1: (rows,)."""
    x, wanted = x.double(), wanted.double()
    left = wanted - x @ torch.linalg.lstsq(x, wanted).solution
    whole, unexplained = wanted.square().sum(dim=0), left.square().sum(dim=0)
    each = (whole - unexplained) / x.shape[1], unexplained / (len(x) - x.shape[1])
    return (1 - each[1] / each[0]).clamp(0, 1)


def test_shares_are_those_of_the_ratio_of_variances(
    drifted: tuple[Tensor, Tensor, Tensor],
) -> None:
    """For either correction: 1 - 1 / F of least squares over the text, of each output."""
    weight, x, moved = drifted
    hessian = accumulate_hessian([moved], COLUMNS)
    factor = inverse_factor(hessian, FREE)
    halves = [(x[:200], moved[:200]), (x[200:], moved[200:])]
    drift = input_drift(halves, COLUMNS, with_squares=True)
    found = shrunk_correction(drift.clone(), factor, COLUMNS, TOKENS)
    shares = f_shares(moved, x - moved)
    assert 0 < shares.min() and shares.max() < 1
    plain = correction(drift[:, :-1], factor, 1.0)
    assert torch.allclose(found, shares[:, None].float() * plain, atol=2e-2)

    strength = torch.linspace(0, 0.2, ROWS)  # of what can be corrected; the rest is chance
    residual = moved @ normal(COLUMNS, ROWS, seed=7) * strength + normal(TOKENS, ROWS, seed=6)
    wanted = moved @ weight.T + residual
    squares = wanted_of_residual([(wanted, moved)], weight, with_squares=True)
    best = aimed(weight, squares[:, :-1], hessian, factor, 1.0) - weight
    shares = f_shares(moved, residual)
    assert shares.min() < 0.2 and shares.max() > 0.6
    shrunk = shrunk_aim(weight, squares, hessian, factor, TOKENS) - weight
    assert torch.allclose(shrunk, shares[:, None].float() * best, atol=2e-2)


def test_shrunk_corrections_lose_less_on_other_text(drifted: tuple[Tensor, Tensor, Tensor]) -> None:
    """Where chance is most of what a fixed share of the correction follows."""
    weight, _, moved = drifted
    half = TOKENS // 4
    text, other = moved[:half], moved[half:]
    hessian = accumulate_hessian([text], COLUMNS)
    factor = inverse_factor(hessian)
    slope = 0.05 * normal(COLUMNS, ROWS, seed=7)
    wanted = text @ (weight.T + slope) + normal(half, ROWS, seed=6)
    squares = wanted_of_residual([(wanted, text)], weight, with_squares=True)
    fixed = aimed(weight, squares[:, :-1], hessian, factor, 0.75)
    shrunk = shrunk_aim(weight, squares, hessian, factor, half)
    lost = [(other @ (found.T - weight.T - slope)).square().sum() for found in (fixed, shrunk)]
    assert lost[1] < 0.8 * lost[0]


@pytest.mark.parametrize("tokens", [COLUMNS, COLUMNS - 1])
def test_too_few_tokens_tell_nothing(tokens: int) -> None:
    some = torch.ones(3)
    assert torch.equal(shrunk_share(some, some, COLUMNS, tokens), torch.zeros(3, 1))
    none = torch.zeros(3)
    assert torch.equal(shrunk_share(none, none, COLUMNS, TOKENS), torch.zeros(3, 1))


def test_padding_is_left_alone(drifted: tuple[Tensor, Tensor, Tensor]) -> None:
    weight, x, moved = drifted
    padded = COLUMNS + 32
    hessian = accumulate_hessian([moved], padded)
    drift = input_drift([(x, moved)], padded)
    assert drift.shape == (padded, padded) and torch.count_nonzero(drift[COLUMNS:]) == 0
    wide = F.pad(weight, (0, 32))
    wanted = wanted_of_residual([(x @ weight.T, moved)], wide)
    assert torch.count_nonzero(wanted[:, COLUMNS:]) == 0
    found = aimed(wide, wanted, hessian, inverse_factor(hessian), 1.0)
    assert torch.count_nonzero(found[:, COLUMNS:]) == 0


@pytest.mark.parametrize("method", ["least squares", "gptaq", "qronos"])
def test_rounded_weights_come_closer_to_the_float_outputs(
    drifted: tuple[Tensor, Tensor, Tensor], method: str
) -> None:
    weight, x, moved = drifted
    hessian = accumulate_hessian([moved], COLUMNS)
    factor = inverse_factor(hessian)
    scales = searched_scales(weight, GROUP)
    drift = input_drift([(x, moved)], COLUMNS)
    plain = dequantize(gptq(weight, scales, factor), scales)
    target, carry, first = weight, None, None
    if method == "gptaq":
        carry = gptaq_carry(drift, factor, 1.0)
    else:
        target = corrected(weight, weight @ drift, factor, 1.0)
    if method == "qronos":
        first = qronos_first(weight, drift, hessian, factor, 1.0)
    found = dequantize(gptq(target, scales, factor, carry=carry, first=first), scales)
    most = 0.95 if method == "gptaq" else 0.85
    assert distance(weight, x, found, moved) < most * distance(weight, x, plain, moved)


@pytest.mark.parametrize("block_size", [1, 24, 64])
def test_gptaq_in_blocks_is_its_definition(
    drifted: tuple[Tensor, Tensor, Tensor], block_size: int
) -> None:
    """One column at a time in float64: after each, its error and its share of the drift."""
    weight, x, moved = drifted
    hessian = accumulate_hessian([moved], COLUMNS)
    factor = inverse_factor(hessian)
    scales = searched_scales(weight, GROUP)
    drift = input_drift([(x, moved)], COLUMNS)
    carry = gptaq_carry(drift, factor, 0.5)
    values = gptq(weight, scales, factor, block_size, carry=carry)

    order = factor.order
    damped = hessian.double() + factor.damping * torch.eye(COLUMNS)
    upper = torch.linalg.cholesky(torch.linalg.inv(damped[order][:, order]), upper=True)
    share = 0.5 * (drift.double()[order][:, order] @ upper.T).triu(1) @ upper
    steps = scales.product().double().repeat_interleave(GROUP, dim=1)[:, order]
    free, expected = weight.double()[:, order], torch.zeros(ROWS, COLUMNS, dtype=torch.int8)
    for i in range(COLUMNS):
        rounded = (free[:, i] / steps[:, i]).round().clamp(-8, 7)
        expected[:, order[i]] = rounded.to(torch.int8)
        error = (free[:, i] - rounded * steps[:, i]) / upper[i, i]
        before = free[:, i].clone()
        free[:, i + 1 :] -= torch.outer(error, upper[i, i + 1 :])
        free[:, i + 1 :] += torch.outer(before, share[i, i + 1 :])
    # float32 against float64: a tie broken otherwise moves the rest of its row
    assert (values == expected).all(dim=1).float().mean() >= 0.9


def test_qronos_rounds_its_first_column_at_its_own_best(
    drifted: tuple[Tensor, Tensor, Tensor],
) -> None:
    weight, x, moved = drifted
    hessian = accumulate_hessian([moved], COLUMNS)
    factor = inverse_factor(hessian, FREE)
    first = int(factor.order[0])
    drift = input_drift([(x, moved)], COLUMNS)
    found = qronos_first(weight, drift, hessian, factor, 1.0)
    others = torch.arange(COLUMNS) != first
    left = x @ weight.T - moved[:, others] @ weight[:, others].T  # (tokens, rows)
    column = moved[:, first]
    assert torch.allclose(found, left.T @ column / column.square().sum(), atol=1e-4)
    scales = searched_scales(weight, GROUP)
    values = gptq(weight, scales, factor, first=found)
    step = scales.product()[:, first // GROUP]
    assert torch.equal(values[:, first].float(), (found / step).round().clamp(-8, 7))
