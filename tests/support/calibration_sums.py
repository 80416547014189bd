"""Statistics of inputs that are in memory as a whole."""

from collections.abc import Sequence

from torch import Tensor

from quant.rounding.activations import RuntimeInputs
from quant.rounding.drift import drift_products, residual_products
from quant.rounding.gptq import gram, hessian_of

Pairs = Sequence[tuple[Tensor, Tensor]]


def accumulate_hessian(inputs: Sequence[Tensor], columns: int) -> Tensor:
    """H = 2/N X^T X."""
    return hessian_of(gram(inputs, columns), _tokens(inputs))


def input_drift(pairs: Pairs, columns: int, with_squares: bool = False) -> Tensor:
    """D = 2/N (X - X')^T X'."""
    products = drift_products(_runtime_inputs(pairs), columns, with_squares=with_squares)
    return products * (2 / _tokens([x for _, x in pairs]))


def wanted_of_residual(pairs: Pairs, weight: Tensor, with_squares: bool = False) -> Tensor:
    """B of pairs (Y, X')."""
    products = residual_products(_runtime_inputs(pairs), weight, with_squares)
    return products * (2 / _tokens([x for _, x in pairs]))


def _runtime_inputs(pairs: Pairs) -> list[tuple[Tensor, RuntimeInputs]]:
    return [(left, RuntimeInputs(x.flatten(0, -2), None)) for left, x in pairs]


def _tokens(inputs: Sequence[Tensor]) -> int:
    return sum(x.flatten(0, -2).shape[0] for x in inputs)
