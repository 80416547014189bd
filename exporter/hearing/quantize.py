"""Stores the weights of a model that hears as integers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

import torch
from torch import Tensor, nn

from exporter.hearing.calibration import Calibration
from exporter.models.moonshine import Moonshine
from exporter.models.whisper import Whisper
from quant.machine.device import HOST
from quant.machine.spill import IN_MEMORY
from quant.modules import (
    QuantizedConvolution,
    QuantizedEmbedding,
    QuantizedWeight,
    set_weight,
)
from quant.progress import ProgressCallback, ProgressMeter
from quant.rotation.inputs import rotate_blocks
from quant.rounding.nearest import require_finite, round_int8, round_weight
from quant.rounding.solve import rotated_by, solve, statistics
from quant.scheme import EMBEDDING_PART, Scheme
from quant.weight_type import WeightType

_MOST_ROWS = 8192  # of a linear's inputs: more gain little


@torch.no_grad()
def quantize(
    model: Whisper | Moonshine,
    scheme: Scheme,
    calibration: Calibration | None,
    progress: ProgressCallback | None,
) -> None:
    """Replaces linears, and the table of tokens, which is the head as well, in place.

    Args:
        scheme: of stored_scheme().
        calibration: for a scheme that needs it; else None.

    Raises:
        QuantError: a weight holds a value that is not finite.
    """
    type, own = scheme.type_of(EMBEDDING_PART), scheme.type
    if type is None or own is None:
        return
    table = model.decoder.embed_tokens
    assert isinstance(table, nn.Embedding)
    linears = _linears_of(model)
    numbers = table.weight.numel() + sum(linear.weight.numel() for linear in linears.values())
    meter = ProgressMeter(numbers, progress)
    if calibration is not None:
        _Calibrated(model, scheme, own, meter).quantize(calibration)
    else:
        for name, linear in linears.items():
            _set(model, name, _nearest(name, linear, own, scheme))
            meter.advance(name, linear.weight.numel())
    for name in model.INTEGER_CONVOLUTIONS:
        convolution = model.encoder.get_submodule(name)
        assert isinstance(convolution, nn.Conv1d)
        weight = round_int8(convolution.weight.flatten(1), f"encoder.{name}")
        setattr(model.encoder, name, QuantizedConvolution(weight, convolution))
    rounded = round_weight(table.weight, type, "decoder.embed_tokens", scheme.choice)
    model.decoder.embed_tokens = QuantizedEmbedding(rounded, table.embedding_dim)
    meter.advance("decoder.embed_tokens", table.weight.numel())


def _linears_of(part: nn.Module) -> dict[str, nn.Linear]:
    return {name: one for name, one in part.named_modules() if isinstance(one, nn.Linear)}


def _set(part: nn.Module, name: str, weight: QuantizedWeight) -> None:
    path, _, own = name.rpartition(".")
    set_weight(part.get_submodule(path), own, weight)


def _nearest(name: str, linear: nn.Linear, type: WeightType, scheme: Scheme) -> QuantizedWeight:
    rotated = scheme.choice.rotated(linear.in_features)
    weight = rotate_blocks(linear.weight, rotated)
    return replace(round_weight(weight, type, name, scheme.choice), rotated=rotated)


class _Calibrated:
    """Layer by layer, each on what the quantized ones before it make of the calibration."""

    def __init__(
        self, model: Whisper | Moonshine, scheme: Scheme, type: WeightType, meter: ProgressMeter
    ) -> None:
        self._model, self._scheme, self._type, self._meter = model, scheme, type, meter

    def quantize(self, calibration: Calibration) -> None:
        encoder, decoder = self._model.encoder, self._model.decoder
        states = [encoder.embed(window[None]) for window in calibration.features]
        for index, layer in enumerate(encoder.layers):
            run = partial(encoder.run, layer)
            states = self._layer(f"encoder.layers.{index}", layer, run, [(x,) for x in states])
        states = [encoder.layer_norm(x) for x in states]
        texts = [decoder.begin(tokens[None]) for tokens in calibration.tokens]
        for index, layer in enumerate(decoder.layers):
            run = partial(decoder.read, layer)
            heard = [(x, states[at % len(states)]) for at, x in enumerate(texts)]
            texts = self._layer(f"decoder.layers.{index}", layer, run, heard)

    def _layer(
        self,
        name: str,
        layer: nn.Module,
        run: Callable[..., Tensor],
        calls: Sequence[tuple[Tensor, ...]],
    ) -> list[Tensor]:
        """Quantizes the linears of a layer; returns its outputs of the calls."""
        linears = _linears_of(layer)
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
