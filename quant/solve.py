"""One weight, from floats to integers and scales, by the choices of a Method."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quant.activations import int8_round_trip
from quant.descent import descend
from quant.drift import corrected, gptaq_carry, input_drift, qronos_first
from quant.gptq import InverseFactor, accumulate_hessian, gptq, inverse_factor
from quant.method import Method
from quant.rounding import closed_scales, search_scales
from quant.scales import TwoLevelScales


@dataclass(frozen=True)
class Statistics:
    """What linears with one input share.

    Attributes:
        hessian: float32 (columns, columns) of the inputs, padded.
        factor: of its inverse, damped.
        importance: float32 (columns,) for the search of scales.
        drift: D (columns, columns) against the float model's inputs, where they were given.
        carry: of GPTAQ, where that is the method.
    """

    hessian: Tensor
    factor: InverseFactor
    importance: Tensor
    drift: Tensor | None
    carry: Tensor | None


def statistics(
    inputs: Sequence[Tensor], reference: Iterable[Tensor] | None, columns: int, method: Method
) -> Statistics:
    """Gathers the statistics of a linear's inputs.

    Args:
        inputs: float32 (..., in_features) each, behind quantized layers.
        reference: the float model's for the same tokens, or None.
        columns: of the padded weight.
    """
    seen = seen_by_linear(method)
    hessian = accumulate_hessian(map(seen, inputs), columns)
    factor = inverse_factor(hessian, act_order=method.act_order)
    importance = hessian.diagonal().contiguous()  # strided, it costs ten times the search
    if method.importance == "inverse":
        importance = torch.where(importance == 0, 0.0, 1 / factor.inverse_diagonal())
    drift = carry = None
    if reference is not None:
        drift = input_drift(zip(reference, map(seen, inputs), strict=True), columns)
        if method.drift == "gptaq":
            carry = gptaq_carry(drift, factor, method.drift_share)
    return Statistics(hessian, factor, importance, drift, carry)


def seen_by_linear(method: Method) -> Callable[[Tensor], Tensor]:
    """What a linear sees of its input: at run time it is rounded to int8."""
    return int8_round_trip if method.int8_statistics else lambda x: x


def solve(
    weight: Tensor,
    group_size: int,
    method: Method,
    given: Statistics,
    correlation: Tensor | None,
) -> tuple[Tensor, TwoLevelScales]:
    """Chooses the integers and scales of a weight.

    Args:
        weight: float32 (rows, columns), padded.
        given: of its inputs.
        correlation: C (rows, columns) of `quant.drift`, or None where nothing has drifted.

    Returns:
        int8 (rows, columns) in -8..7, and their scales.
    """
    target, first = weight, None
    if correlation is not None:
        target = corrected(weight, correlation, given.factor, method.drift_share)
        if method.drift == "qronos":
            first = qronos_first(
                weight, correlation, given.hessian, given.factor, method.drift_share
            )
    start = weight if given.carry is not None else target
    if method.scales == "searched":
        scales = search_scales(start, group_size, given.importance)
    else:
        scales = closed_scales(start, group_size)
    values = gptq(start, scales, given.factor, carry=given.carry, first=first)
    if method.descent:
        return descend(target, values, scales, given.factor, given.hessian, method.descent)
    return values, scales
