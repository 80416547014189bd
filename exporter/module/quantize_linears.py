"""Stores a module's linears as integers: int8 a row, or int4 in groups that GPTQ chooses."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor, nn

from exporter.module.source import Inputs
from exporter.module.state import state_kept
from quant.machine.device import HOST
from quant.machine.spill import IN_MEMORY
from quant.modules import QuantizedWeight, set_weight
from quant.rounding.nearest import require_finite, round_int8
from quant.rounding.solve import solve, statistics
from quant.scheme import METHODS
from quant.weight_type import int4

KnownWeights = dict[int, QuantizedWeight]  # by the address of the weight in float
_ROWS = 8192  # of a linear's inputs, at most: GPTQ gains little from more
# Each linear by itself: nothing has drifted before it, and delegates rotate no inputs.
_GPTQ = replace(METHODS["gptq4"], drift="none", rotation="none")


def linears_of(module: nn.Module) -> dict[str, nn.Linear]:
    """Returns the float32 linears that can be replaced, by name: parts of exactly that class."""
    return {
        name: part
        for name, part in module.named_modules()
        if name and type(part) is nn.Linear and part.weight.dtype is torch.float32
    }


class _Watched(nn.Linear):
    """A linear that knows whether others read its weight."""

    runs = is_read = False

    def forward(self, input: Tensor) -> Tensor:
        self.runs = True
        try:
            return super().forward(input)
        finally:
            self.runs = False

    def __getattr__(self, name: str) -> Any:
        if name == "weight" and not self.runs:
            self.is_read = True
        return super().__getattr__(name)


@torch.no_grad()
def with_read_weights(module: nn.Module, inputs: Inputs) -> list[str]:
    """Returns those of linears_of() whose weight another module reads: a linear with integers has
    none.

    Args:
        inputs: an example, on which the module runs.
    """
    copied = copy.deepcopy(module)
    linears = linears_of(copied)
    for linear in linears.values():
        linear.__class__ = _Watched
    inputs.call(copied)
    return [name for name, linear in linears.items() if cast(_Watched, linear).is_read]


@torch.no_grad()
def quantize_linears(
    module: nn.Module,
    names: Mapping[str, int],
    quant: str,
    group_size: int,
    calibration: Sequence[Inputs],
    known: KnownWeights,
) -> None:
    """Replaces linears in place.

    Args:
        names: of linears_of(), each with the address of its weight.
        quant: "int8" or "int4".
        group_size: of int4.
        calibration: for int4.
        known: the integers of weights that are quantized already; new ones are added.

    Raises:
        QuantError: a weight is not finite.
    """
    linears = {name: part for name, part in linears_of(module).items() if name in names}
    new = {name: linear for name, linear in linears.items() if names[name] not in known}
    inputs = {} if quant == "int8" else _inputs_of(module, new, calibration)
    for name, linear in new.items():
        known[names[name]] = (
            round_int8(linear.weight, f"{name}.weight")
            if quant == "int8"
            else _int4(name, linear.weight, group_size, inputs[name])
        )
    for name in linears:
        path, _, own = name.rpartition(".")
        set_weight(module.get_submodule(path), own, known[names[name]])


def _int4(name: str, weight: Tensor, group_size: int, inputs: list[Tensor]) -> QuantizedWeight:
    require_finite(weight, f"{name}.weight")
    type, (rows, columns) = int4(group_size), weight.shape
    if not inputs:  # nothing runs it: each number is as good as another
        inputs = [torch.eye(columns)]
    tokens = sum(len(tensor) for tensor in inputs)
    known = statistics(
        [IN_MEMORY.keep(inputs)], None, tokens, rows, type.padded(columns), _GPTQ, _total, HOST
    )
    return solve(weight.float(), type, _GPTQ, known, None)


def _total(terms: Iterable[Tensor]) -> Tensor:
    return reduce(Tensor.add_, terms)


def _inputs_of(
    module: nn.Module, linears: dict[str, nn.Linear], calibration: Sequence[Inputs]
) -> dict[str, list[Tensor]]:
    """Returns rows (rows, in_features) that each linear reads, some of each call."""
    collected: dict[str, list[Tensor]] = {name: [] for name in linears}
    most = max(1, _ROWS // max(len(calibration), 1))

    def note(name: str, x: Tensor) -> None:
        rows = x.reshape(-1, x.shape[-1])
        collected[name].append(rows[:: max(1, len(rows) // most)][:most].clone())

    with _noting(linears, note), state_kept(module):
        for inputs in calibration:
            inputs.call(module)
    return collected


@contextmanager
def _noting(linears: dict[str, nn.Linear], note: object) -> Iterator[None]:
    def hook(name: str) -> object:
        return lambda _, args: note(name, args[0])  # type: ignore[operator]

    handles = [
        part.register_forward_pre_hook(hook(name))  # type: ignore[arg-type]
        for name, part in linears.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            with suppress(RuntimeError):
                handle.remove()
