"""The pass over a model: load a layer, quantize it, measure it, go to the next.

One decoder layer is in float at a time. Up to four streams of hidden states go through the
layers: the calibration text and the evaluation text, each through the float and the quantized
ones, so that neither drift nor quality costs a second reading of the weights.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from quant.cache.layers import find_cached_layers
from quant.errors import QuantError
from quant.importance import Importance
from quant.layers.block_solver import calibration_streams
from quant.layers.blocks import linear_weights, mixtures_of, part_names
from quant.layers.embedding_and_head import is_tied, load_embedding_and_head, load_head_bias
from quant.layers.evaluation import EvaluationStreams
from quant.layers.head_inputs import fill_ends
from quant.layers.outside_layers import fill_outer, outer_parts
from quant.layers.rounder import layer_rounder
from quant.layers.walk import filling_walk, layers_of, load_finite, walk
from quant.machine.device import full_memory_reported, move
from quant.machine.ranks import Ranks
from quant.machine.resources import DEFAULTS, Resources
from quant.measure.size import STOCK, Storage, stored_size
from quant.progress import ProgressCallback, ProgressMeter
from quant.protocols import CausalLM, WeightSource
from quant.report import QuantReport
from quant.rotation.fold import require_rotatable, rotate
from quant.rotation.learned import learn_rotation
from quant.rounding.gptq import compile_loops
from quant.scheme import EMBEDDING_PART, HEAD_PART, KEEP, Scheme


@full_memory_reported()
@torch.no_grad()
def quantize(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor | None = None,
    evaluation: Tensor | None = None,
    progress: ProgressCallback | None = None,
    resources: Resources = DEFAULTS,
    storage: Storage = STOCK,
    importance: Importance | None = None,
) -> QuantReport:
    """Fills a model with the quantized form of stored weights, one decoder layer at a time.

    Args:
        model: on the meta device; afterwards without a meta tensor, and runs eagerly.
        calibration: int64 (windows, seq_len), for "gptq4" only.
        evaluation: int64 (windows, seq_len) of other text, seq_len >= 2; None measures nothing.
        progress: is called after every weight.
        resources: such as a cache; they do not change the result, except as `Resources` says.
        storage: how the reported size is counted.
        importance: of columns, in the search of scales of a scheme that `weighed` has made.

    Raises:
        QuantError: no calibration text for a scheme that needs it, or a weight that is not finite.
    """
    calibration, device = _needed_text(scheme, calibration), resources.device
    experts = sum(len(block.experts) for stop in walk(model) for block in mixtures_of(stop.layer))
    layers, parts = layers_of(model), part_names(model)
    outer = [part.name for part in outer_parts(model)]
    _require_method(model, scheme, experts, resources.ranks)
    _require_parts(scheme, parts, outer, is_tied(model))
    head_weights = model.lm_head.in_features * model.lm_head.out_features
    head_work = 0 if scheme.needs_calibration else head_weights  # next to GPTQ, it takes no time
    measure_work = head_work if evaluation is not None else 0
    work = head_work + sum(map(linear_weights, layers)) + measure_work
    meter = ProgressMeter(work, progress if resources.ranks.first else None)
    cached = find_cached_layers(
        model, scheme, weights, calibration, evaluation, resources, importance
    )
    missing = [index for index in range(len(layers)) if cached is None or not cached.has(index)]
    measured = None if cached is None or missing else cached.load_quality()
    if scheme.choice.rotation == "hadamard":
        weights = rotate(model, weights)
    elif scheme.choice.rotation == "learned" and calibration is not None:
        weights = learn_rotation(model, weights, calibration, scheme.group_size, device)
    tied = is_tied(model)
    load_head_bias(model, weights)

    if scheme.name == "none":
        load_embedding_and_head(model, weights)
    else:
        fill_ends(model, scheme, weights, calibration, cached, device)
    resources.spill.park(cast(nn.Module, model))
    fill_outer(model, scheme, weights, resources.spill)
    resources.spill.release()
    load_finite(weights, model.model.get_submodule("norm"), "model.norm.")
    meter.advance("model.embed_tokens", head_work)
    calibrated = None
    if calibration is not None and scheme.choice.follows_calibration and missing:
        calibrated = calibration_streams(model, scheme, weights, calibration, resources)
    streams = None
    if evaluation is not None and measured is None and resources.ranks.first:
        streams = EvaluationStreams(model, weights, evaluation, device)
    round_layer = layer_rounder(scheme, weights, device, importance)
    if scheme.choice.rounding == "gptq":
        compile_loops()
    meter.restart_estimate()
    undertrained: list[str] = []
    for stop in filling_walk(model, weights, resources.spill):
        index, name, layer = stop.index, stop.name, stop.layer
        if missing and index > missing[-1]:
            calibrated = None
        if index in missing or calibrated is not None or streams is not None:
            stop.load(weights, device, matrices=scheme.name in ("none", KEEP))
        if streams is not None:
            streams.advance_float(stop)
        if cached is not None and cached.has(index):
            numbers = linear_weights(layer)
            if calibrated is not None and calibrated.reference is not None:
                calibrated.reference.advance(layer)
            few = cached.load(index, layer)
            if calibrated is not None or streams is not None:
                move(layer, device)
            meter.advance(f"{name}, from the cache", numbers)
            meter.restart_estimate()
            if calibrated is not None:
                calibrated.hidden.advance(layer)
        else:
            few = round_layer(layer, name, calibrated, meter.advance) or []
            if cached is not None:
                cached.store(index, layer, few)
        undertrained += [f"{name}.{expert}" for expert in few]
        if streams is not None:
            streams.advance_quantized(layer)
    del calibrated

    if streams is not None:
        measured = streams.compare(
            model,
            weights,
            tied,
            lambda numbers: meter.advance("quality", numbers if measure_work else 0),
        )
        if cached is not None:
            cached.store_quality(*measured)
    else:
        meter.advance("quality", measure_work)
    quality, layer_errors = (None, []) if measured is None else measured
    return QuantReport(
        scheme=scheme.name,
        group_size=scheme.group_size,
        head_bits=scheme.ends_bits,
        size=stored_size(model, layers, tied, storage),
        widths=scheme.widths(parts, outer),
        method=scheme.settings,
        quality=quality,
        layer_errors=tuple(layer_errors),
        calibration_tokens=0 if calibration is None else calibration.numel(),
        seconds=meter.seconds,
        cached_layers=len(layers) - len(missing),
        experts=experts,
        rare_experts=tuple(undertrained),
    )


def _require_method(model: CausalLM, scheme: Scheme, experts: int, ranks: Ranks) -> None:
    """Raises QuantError if the scheme's method cannot quantize such a model, or in so many
    processes."""
    if scheme.choice.rounding == "awq" and ranks.count > 1:
        raise QuantError(f"{scheme.name} cannot be shared by several processes; start one.")
    if scheme.choice.rounding == "awq" and experts:
        raise QuantError(
            f"{scheme.name} does not support mixtures of experts, which this model has; take gptq4."
        )
    if scheme.choice.folds_rotation:
        require_rotatable(model, scheme.choice.rotation)


def _require_parts(
    scheme: Scheme, layers: Sequence[Sequence[str]], outer: Sequence[str], tied: bool
) -> None:
    """Raises QuantError if a type is for a part that does not exist, or if two ends that are one
    weight have two types."""
    names = {f"model.layers.{i}.{part}" for i, parts in enumerate(layers) for part in parts}
    for part, _ in scheme.types:
        if part not in names | {EMBEDDING_PART, HEAD_PART, *outer}:
            raise QuantError(f"the model has no part {part}, which was given a type of its own.")
    if tied and scheme.type_of(EMBEDDING_PART) != scheme.type_of(HEAD_PART):
        raise QuantError(
            f"{EMBEDDING_PART} and {HEAD_PART} are one weight in this model, and were given two "
            "types; give them the same."
        )


def _needed_text(scheme: Scheme, calibration: Tensor | None) -> Tensor | None:
    """The calibration tokens, None for a scheme that takes none."""
    if not scheme.needs_calibration:
        return None
    if calibration is None or calibration.numel() == 0:
        raise QuantError(
            f"{scheme.name} was given no calibration text; it needs some to choose its weights: "
            "name a text file with --calibration."
        )
    return calibration
