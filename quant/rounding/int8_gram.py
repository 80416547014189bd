"""X^T X of inputs that are rounded to int8, by products of integers.

With x = s (q - z) for the int8 values q of a token, its scale s and zero point z, and w = s^2:

    X^T X = Q^T W Q - v 1^T - 1 v^T + k 1 1^T,    v = sum of w z q,    k = sum of w z^2

W Q is rounded to 16 bits, as two int8 matrices: w is divided by four times the median of the text,
so that half of all tokens keep 6 bits more than q has. The rounding errors, below 2^-15 of the
largest entry, are independent of Q. Tokens of a larger w, which no 16 bits could hold beside the
others (the first token of a text is often a thousand times larger), are multiplied as floats.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from quant.rounding.activations import PIECE, Rounded
from quant.rounding.gptq import add_gram, upper_rows

TOGETHER = 1 << 26  # numbers whose products are summed in int32
_MOST_TOKENS = 1 << 16  # so: products are at most 2^14, and a batch comes on top
_ABOVE_MEDIAN = 4.0
_MOST = 127 * 256 / 128  # of w times an int8


def int8_gram(inputs: Iterable[Rounded], columns: int) -> Tensor:
    """X^T X of the inputs of a linear, of which the upper triangle counts.

    Args:
        inputs: of in_features columns each, on the CPU.
        columns: of the padded weight, >= in_features; what is beyond in_features stays 0.

    Returns:
        float32 (columns, columns).
    """
    products = torch.zeros(columns, columns)
    for tokens in _together(inputs):
        used = tokens.values.shape[1]
        _add(products[:used, :used], tokens)
    return products


@dataclass(frozen=True)
class _Tokens:
    """Some tokens: int8 (tokens, columns), and float32 (tokens, 1)."""

    values: Tensor
    zero_point: Tensor
    weight: Tensor


def _together(inputs: Iterable[Rounded]) -> Iterator[_Tokens]:
    """Inputs, as many as are added up at once."""
    waiting: list[_Tokens] = []
    for x in inputs:
        waiting.append(_tokens(x))
        tokens = sum(len(part.values) for part in waiting)
        if tokens >= min(_MOST_TOKENS, TOGETHER // x.values.shape[-1]):
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _tokens(x: Rounded) -> _Tokens:
    values, zero_point, scale = (part.flatten(0, -2) for part in (x.values, x.zero_point, x.scale))
    return _Tokens(values, zero_point, scale.square())


def _joined(parts: list[_Tokens]) -> _Tokens:
    return _Tokens(
        torch.cat([part.values for part in parts]),
        torch.cat([part.zero_point for part in parts]),
        torch.cat([part.weight for part in parts]),
    )


def _add(products: Tensor, tokens: _Tokens) -> None:
    """Adds the products of some tokens."""
    values, zero_point, weight = tokens.values, tokens.zero_point, tokens.weight
    most = _ABOVE_MEDIAN * weight.median()
    usual = weight <= most
    step = max(1, PIECE // values.shape[1])
    for rare in (~usual).squeeze(1).nonzero().squeeze(1).split(step):
        x = (values[rare] - zero_point[rare]) * weight[rare].sqrt()
        add_gram(products, x)
    weight = weight * usual
    high, low = torch.empty_like(values), torch.empty_like(values)
    shifted = torch.zeros(products.shape[1])
    for start in range(0, len(values), step):
        here = slice(start, start + step)
        x = values[here].float()
        shifted += ((zero_point[here] * weight[here]).T @ x).squeeze(0)
        x.mul_(weight[here] * (_MOST / most)).round_()
        upper = (x / 256).round_()
        high[here], low[here] = upper, x.sub_(upper, alpha=256).clamp_(-128, 127)
    for rows in upper_rows(products):
        left = values[:, rows].T
        sums = torch._int_mm(left, high[:, rows.start :]).float().mul_(256)
        sums += torch._int_mm(left, low[:, rows.start :])
        products[rows, rows.start :].add_(sums, alpha=float(most) / _MOST)
    constant = (zero_point.square() * weight).sum()
    products.sub_(shifted).sub_(shifted.unsqueeze(1)).add_(constant)
