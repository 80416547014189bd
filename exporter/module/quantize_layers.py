"""Stores the linears of a stack of layers as integers: rounded to nearest, or each layer by GPTQ on
what the quantized ones before it make of the calibration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

from torch import Tensor, nn

from quant.machine.device import HOST
from quant.machine.spill import IN_MEMORY
from quant.modules import QuantizedConvolution, QuantizedWeight, set_weight
from quant.progress import ProgressMeter
from quant.rotation.inputs import rotate_blocks
from quant.rounding.nearest import require_finite, round_int8, round_weight
from quant.rounding.solve import rotated_by, solve, statistics
from quant.scheme import Scheme
from quant.weight_type import WeightType

NO_TYPES: Mapping[str, WeightType] = MappingProxyType({})
_MOST_ROWS = 8192  # of a linear's inputs: more gain little


class LayerQuantizer:
    """Replaces linears in place, in one type.

    Raises, in its methods:
        QuantError: a weight holds a value that is not finite.
    """

    def __init__(self, scheme: Scheme, type: WeightType, meter: ProgressMeter) -> None:
        self._scheme, self._type, self._meter = scheme, type, meter

    def round(self, part: nn.Module, types: Mapping[str, WeightType] = NO_TYPES) -> None:
        """Rounds the linears of a part to nearest.

        Args:
            types: of those by these names; others have the quantizer's own.
        """
        for name, linear in linears_of(part).items():
            rotated = self._scheme.choice.rotated(linear.in_features)
            weight, type = rotate_blocks(linear.weight, rotated), types.get(name, self._type)
            rounded = round_weight(weight, type, name, self._scheme.choice)
            _set(part, name, replace(rounded, rotated=rotated))
            self._meter.advance(name, linear.weight.numel())

    def solve(
        self,
        name: str,
        layer: nn.Module,
        run: Callable[..., Tensor],
        calls: Sequence[tuple[Tensor, ...]],
    ) -> list[Tensor]:
        """Chooses the integers of a layer's linears by what they read in calls of `run`, which runs
        it; returns its outputs of the calls."""
        linears = linears_of(layer)
        for linear, inputs in _inputs_of(linears, lambda: [run(*call) for call in calls]).items():
            path = f"{name}.{linear}"
            _set(layer, linear, self._solved(path, linears[linear].weight, inputs))
            self._meter.advance(path, linears[linear].weight.numel())
        return [run(*call) for call in calls]

    def _solved(self, name: str, weight: Tensor, inputs: Sequence[Tensor]) -> QuantizedWeight:
        require_finite(weight, name)
        method, (rows, columns) = self._scheme.choice, weight.shape
        count = sum(map(len, inputs))
        known = statistics(
            [IN_MEMORY.keep(inputs)],
            None,
            count,
            rows,
            self._type.padded(columns),
            method,
            lambda terms: reduce(Tensor.add_, terms),
            HOST,
        )
        solved = solve(rotated_by(method)(weight), self._type, method, known, None)
        return replace(solved, rotated=method.rotated(columns))


def round_convolution(part: nn.Module, name: str) -> None:
    """Replaces a convolution of a part by one in int8, whatever the type of linears is.

    Raises:
        QuantError: it holds a value that is not finite.
    """
    convolution = part.get_submodule(name)
    assert isinstance(convolution, nn.Conv1d | nn.Conv2d)
    weight = round_int8(convolution.weight.flatten(1), name)
    setattr(part, name, QuantizedConvolution(weight, convolution))


def linears_of(part: nn.Module) -> dict[str, nn.Linear]:
    return {name: one for name, one in part.named_modules() if isinstance(one, nn.Linear)}


def _set(part: nn.Module, name: str, weight: QuantizedWeight) -> None:
    path, _, own = name.rpartition(".")
    set_weight(part.get_submodule(path), own, weight)


def _inputs_of(
    linears: Mapping[str, nn.Linear], run: Callable[[], Sequence[Tensor]]
) -> dict[str, list[Tensor]]:
    """Returns rows (rows, in_features) that each reads, some of each call."""
    seen: dict[str, list[Tensor]] = {name: [] for name in linears}

    def noting(name: str) -> Callable[..., None]:
        return lambda _, args: seen[name].append(args[0].flatten(0, -2))

    handles = [part.register_forward_pre_hook(noting(name)) for name, part in linears.items()]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    most = max(1, _MOST_ROWS // max(map(len, seen.values())))
    return {
        name: [rows[:: -(-len(rows) // most)].clone() for rows in calls]
        for name, calls in seen.items()
    }
