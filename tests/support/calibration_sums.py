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


def input_drift(pairs: Pairs, columns: int) -> Tensor:
    """D = 2/N (X - X')^T X'."""
    return drift_products(_runtime_inputs(pairs), columns) * (2 / _tokens([x for _, x in pairs]))


def wanted_of_residual(pairs: Pairs, weight: Tensor) -> Tensor:
    """B of pairs (Y, X')."""
    return residual_products(_runtime_inputs(pairs), weight) * (2 / _tokens([x for _, x in pairs]))


def _runtime_inputs(pairs: Pairs) -> list[tuple[Tensor, RuntimeInputs]]:
    return [(left, RuntimeInputs(x.flatten(0, -2), None)) for left, x in pairs]


def _tokens(inputs: Sequence[Tensor]) -> int:
    return sum(x.flatten(0, -2).shape[0] for x in inputs)
