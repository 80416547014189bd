"""Quantizes a module, and finds out which layers change its answers."""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.utils._pytree import tree_leaves

from delegates.passes.nan import may_be_nan, odd_constants
from exporter.errors import ExportError
from exporter.listener import Listener
from exporter.module.capture import capture_module, keep_inputs
from exporter.module.effects import layer_effects
from exporter.module.quality import ModuleQuality, measure
from exporter.module.quantize_convolutions import convolutions_of, quantize_convolutions
from exporter.module.quantize_linears import (
    KnownWeights,
    linears_of,
    quantize_linears,
    with_read_weights,
)
from exporter.module.quantize_windows import CONVOLUTIONS, dense_of, quantize_windows
from exporter.module.source import Inputs, Made, failure, flat_shapes
from exporter.module.state import state_kept
from exporter.module.varied import varied
from quant.progress import Progress

_HELD_OUT = 4  # every so many calibration inputs, one measures quality only
_MOST_NAMED = 8
_MOST_LEFT = 4  # of so many layers one may stay in float
_ROUNDED = torch.ops.aten.linear.default, *CONVOLUTIONS
Captured = tuple[nn.Module, ExportedProgram]


@dataclass(frozen=True)
class Quantized:
    """
    Attributes:
        program: with integers.
        run: what it computes, eagerly.
        report: for the file.
        note: a sentence for the user; "" if there is nothing to know.
    """

    program: ExportedProgram
    run: Any
    report: dict[str, Any]
    quality: ModuleQuality
    note: str


def check_layers(methods: Iterable[Captured], quant: str, is_static: bool) -> None:
    """
    Args:
        is_static: of quantize_made().

    Raises:
        ExportError: there is nothing to quantize.
    """
    if not any(any(_layers_of(*method, quant, is_static)) for method in methods):
        kinds = {True: " or a convolution", False: " or a dense convolution of fixed sizes"}
        raise ExportError(
            f"--quant {quant} has nothing to quantize: no part of the module is a torch.nn.Linear"
            f"{kinds[is_static] if quant == 'int8' else ''} in float32; use --quant none."
        )


def _layers_of(
    module: nn.Module, program: ExportedProgram, quant: str, is_static: bool
) -> tuple[list[str], list[str]]:
    """Returns the linears and the convolutions to quantize."""
    convolutions: Mapping[str, nn.Module] = {}
    if quant == "int8":
        convolutions = convolutions_of(module) if is_static else dense_of(module, program)
    return list(linears_of(module)), list(convolutions)


def quantize_made(
    made: Made,
    program: ExportedProgram,
    quant: str,
    group_size: int,
    listener: Listener,
    known: KnownWeights,
    is_static: bool,
) -> Quantized | None:
    """Quantizes linears, and with int8 convolutions; None if there are none.

    Where answers change, the layers that change them most stay in float, at most a quarter.

    Args:
        program: the module in float.
        quant: "int8" or "int4".
        known: the integers of weights that other methods share; new ones are added.
        is_static: whether a delegate computes convolutions whose inputs have the ranges that
            calibration shows; else each window has its own, and dense ones alone are quantized.

    Raises:
        QuantError: a weight is not finite.
    """
    linears, convolutions = _layers_of(made.module, program, quant, is_static)
    layers = [*linears, *convolutions]
    if not layers:
        return None
    given = list(made.calibration) or [made.inputs]
    _refuse_nan(given)
    fitted, held = _divided(given)
    floats = [_run(made.module, made.module, inputs) for inputs in held]
    fixed = _unfit(made, program, linears if is_static else layers)
    unfit = list(dict.fromkeys(name for names in fixed.values() for name in names))
    left: list[str] = list(unfit)
    ranked: list[tuple[str, float]] = []
    most = len(layers) // _MOST_LEFT
    while True:
        products, windows = (
            [name for name in kind if name not in left] for kind in (linears, convolutions)
        )
        integers, run = _integers(
            made, quant, group_size, products, windows, fitted, program, known, is_static
        )
        quality = measure(floats, [_run(run, run, inputs) for inputs in held])
        if quality.is_good:
            break
        if not ranked:
            others = [name for name in layers if name not in left]
            ranked = layer_effects(made, others, quant, group_size, fitted, held)
        count = 2 * (len(left) - len(unfit)) or 1
        worst = [name for name, _ in ranked][:count]
        if count > most or len(worst) < count:
            break
        left = [*unfit, *worst]
        listener.progress(Progress("quality", count, max(most, 1), None))
    kept = [name for name in left if name not in unfit]
    report = {
        "scheme": quant,
        "layers": len(layers) - len(left),
        "left_in_float": left[:_MOST_NAMED],
        "calibration_inputs": len(fitted),
        "quality": quality.to_dict(),
        "effects": [{"layer": name, "error": error} for name, error in ranked[:_MOST_NAMED]],
    }
    return Quantized(
        integers, run, report, quality, _note(quant, quality, kept, fixed, ranked, made)
    )


def _refuse_nan(given: Sequence[Inputs]) -> None:
    """
    Raises:
        ExportError: an input holds a NaN: neither ranges nor quality can be measured on it.
    """
    for index, inputs in enumerate(given):
        if any(leaf.isnan().any() for leaf in inputs.leaves()):
            raise ExportError(
                f"calibration[{index}] (without any, the example) holds a NaN, on which integers "
                "cannot be calibrated; return inputs without."
            )


def _divided(given: Sequence[Inputs]) -> tuple[list[Inputs], list[Inputs]]:
    """Calibration inputs, and those that measure quality: others, where there are enough."""
    if len(given) < _HELD_OUT:
        return list(given), list(given)
    held = given[_HELD_OUT - 1 :: _HELD_OUT]
    return [sample for index, sample in enumerate(given) if (index + 1) % _HELD_OUT], list(held)


def _integers(
    made: Made,
    quant: str,
    group_size: int,
    linears: Collection[str],
    convolutions: Collection[str],
    calibration: Sequence[Inputs],
    program: ExportedProgram,
    known: KnownWeights,
    is_static: bool,
) -> tuple[ExportedProgram, Any]:
    """Returns the program with integers in those layers, and what it computes."""
    module = copy.deepcopy(made.module)
    weights = {name: linear.weight for name, linear in linears_of(made.module).items()}
    names = {name: weights[name].data_ptr() for name in linears}
    quantize_linears(module, names, quant, group_size, calibration, known)
    own = replace(made, module=module)
    if names:
        program = capture_module(own)
    if not convolutions:
        return program, module
    if not is_static:
        program = quantize_windows(program, convolutions)
        return program, program.module()
    left = [name for name in convolutions_of(module) if name not in convolutions]
    converted = quantize_convolutions(program, left, calibration)
    example, shapes = varied(made), flat_shapes(made)
    kwargs = dict(example.kwargs)
    try:
        with state_kept(converted):
            captured = export(converted, example.args, kwargs or None, dynamic_shapes=shapes)
    except Exception as error:
        raise failure("The quantized module cannot be captured", error) from error
    return keep_inputs(captured.run_decompositions({})), converted


@torch.no_grad()
def _run(run: Any, owner: nn.Module, inputs: Inputs) -> list[Tensor]:
    with state_kept(owner):
        return [leaf.clone() for leaf in tree_leaves(inputs.call(run))]


def _unfit(made: Made, program: ExportedProgram, layers: Collection[str]) -> dict[str, list[str]]:
    """Returns the layers that stay in float whatever their answers are, by the reason."""
    return {
        "their inputs may be NaN": _may_read_nan(program, layers),
        "the module reads their weights by itself": with_read_weights(made.module, made.inputs),
    }


def _may_read_nan(program: ExportedProgram, layers: Collection[str]) -> list[str]:
    """Returns the layers whose input may be NaN by the module's own doing: rounding to integers
    would make it a number."""
    odd, names = odd_constants(program), []
    for node in program.graph.nodes:
        if node.target not in _ROUNDED:
            continue
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = stack[-1][0] if stack else ""
        name = next((layer for layer in layers if path.endswith(layer)), None)
        if name is not None and may_be_nan(node.args[0], program, odd):
            names.append(name)
    return list(dict.fromkeys(names))


def _note(
    quant: str,
    quality: ModuleQuality,
    kept: Sequence[str],
    fixed: Mapping[str, Sequence[str]],
    ranked: Sequence[tuple[str, float]],
    made: Made,
) -> str:
    texts = []
    if not made.calibration:
        texts.append(
            "Calibrated on the example, and quality is measured there too: return calibration "
            "inputs for better ranges and a fair measure."
        )
    reasons = {**fixed, f"{quant} changes most there": kept}
    texts += [
        f"In float, because {why}: {_listed(names)}." for why, names in reasons.items() if names
    ]
    steps = [name for name, part in made.module.named_modules() if isinstance(part, nn.RNNBase)]
    if steps:
        texts.append(f"Recurrent layers stay in float: {_listed(steps)}.")
    if quality.changed:
        worst = _listed([name for name, _ in ranked if name not in kept])
        texts.append(
            f"{quant} changes {quality.changed} of {quality.answers} answers (the largest number "
            f"of a row); these layers move it most: {worst}."
        )
    return " ".join(texts)


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + rest
