"""How much each layer's integers alone change a module's outputs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from exporter.module.source import Inputs, Made
from exporter.module.state import state_kept

_LEVELS = {"int8": 127, "int4": 7}


@torch.no_grad()
def layer_effects(
    made: Made,
    layers: Sequence[str],
    quant: str,
    group_size: int,
    calibration: Sequence[Inputs],
    held: Sequence[Inputs],
) -> list[tuple[str, float]]:
    """Returns the layers, the worst first, with the relative error of the outputs if that layer
    alone has integer weights and int8 inputs.

    Weights are rounded to nearest here: it is the place that counts, not the method.

    Args:
        calibration: shows the ranges of convolutions' inputs.
        held: measures the error.
    """
    ranges = _input_ranges(made, layers, calibration)
    expected = [_outputs(made, inputs) for inputs in held]
    effects = []
    for name in layers:
        layer = made.module.get_submodule(name)
        with _with_integers(layer, _LEVELS[quant], group_size, ranges.get(name)):
            got = [_outputs(made, inputs) for inputs in held]
        errors = [
            float((want - have).norm() / want.norm().clamp(min=1e-30))
            for outputs, others in zip(expected, got, strict=True)
            for want, have in zip(outputs, others, strict=True)
        ]
        effects.append((name, max(errors, default=0.0)))
    return sorted(effects, key=lambda effect: -effect[1])


def _outputs(made: Made, inputs: Inputs) -> list[Tensor]:
    with state_kept(made.module):
        leaves = tree_leaves(inputs.call(made.module))
        return [leaf.double().nan_to_num() for leaf in leaves if leaf.is_floating_point()]


def _input_ranges(
    made: Made, layers: Sequence[str], calibration: Sequence[Inputs]
) -> dict[str, tuple[float, float]]:
    """Returns the least and the largest number that each convolution reads."""
    ranges: dict[str, tuple[float, float]] = {}

    def hook(name: str) -> Callable[..., None]:
        def note(_: nn.Module, args: Any) -> None:
            low, high = (float(end) for end in args[0].aminmax())
            known = ranges.get(name, (0.0, 0.0))
            ranges[name] = min(known[0], low), max(known[1], high)

        return note

    modules = ((name, made.module.get_submodule(name)) for name in layers)
    handles = [
        module.register_forward_pre_hook(hook(name))
        for name, module in modules
        if not isinstance(module, nn.Linear)
    ]
    try:
        with state_kept(made.module):
            for inputs in calibration:
                inputs.call(made.module)
    finally:
        for handle in handles:
            handle.remove()
    return ranges


@contextmanager
def _with_integers(
    layer: Any, levels: int, group_size: int, range: tuple[float, float] | None
) -> Iterator[None]:
    """Within it, a layer has rounded weights, and inputs rounded by a range, or by token."""
    weight = layer.weight
    kept = weight.clone()
    rows = kept.flatten(1)
    if levels < 127 and rows.shape[1] % group_size == 0:
        rows = rows.reshape(-1, group_size)
    scales = rows.abs().amax(1, keepdim=True).clamp(min=1e-30) / levels
    weight.copy_(((rows / scales).round() * scales).reshape(kept.shape))

    def rounded(_: nn.Module, args: Any) -> Any:
        x = args[0]
        low, high = range or (
            x.amin(-1, keepdim=True).clamp(max=0),
            x.amax(-1, keepdim=True).clamp(min=0),
        )
        scale = (torch.as_tensor(high) - low).clamp(min=1e-30) / 255
        codes = ((x - low) / scale).round().clamp(0, 255)
        return (codes * scale + low, *args[1:])

    handle = layer.register_forward_pre_hook(rounded)
    try:
        yield
    finally:
        handle.remove()
        weight.copy_(kept)
