"""The pass over a model: load a layer, quantize it, measure it, go to the next.

One decoder layer is in float at a time. Up to four streams of hidden states go through the
layers: the calibration text and the evaluation text, each through the float and the quantized
ones, so that neither drift nor quality costs a second reading of the weights.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from quant.baselines.awq import awq_layer
from quant.cache.layers import CachedLayers, find_cached_layers
from quant.errors import QuantError
from quant.layers.block_solver import Streams
from quant.layers.blocks import mixtures_of, part_names, parts_of_layer, weight_of
from quant.layers.embedding_and_head import (
    compare_heads,
    embed_float,
    is_tied,
    load_embedding_and_head,
    quantize_embedding_and_head,
    set_embedding_and_head,
)
from quant.layers.gptq import gptq_layer
from quant.layers.head_inputs import head_statistics
from quant.layers.keep_integers import keep_layer
from quant.layers.nearest import round_layer
from quant.layers.outside_layers import fill_outer, outer_parts
from quant.layers.stream import States, Stream, contexts_on
from quant.layers.walk import Stop, filling_walk, layers_of, load_finite, walk
from quant.machine.device import full_memory_reported, move
from quant.machine.resources import DEFAULTS, Resources
from quant.measure.quality import Quality
from quant.measure.size import STOCK, Storage, stored_size
from quant.progress import ProgressCallback, ProgressMeter
from quant.protocols import CausalLM, WeightSource
from quant.report import QuantReport
from quant.rotation.fold import require_rotatable, rotate
from quant.rotation.learned import learn_rotation
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
) -> QuantReport:
    """Fills a model with the quantized form of stored weights, one decoder layer at a time.

    Args:
        model: on the meta device; afterwards without a meta tensor, and runs eagerly.
        calibration: int64 (windows, seq_len), for "gptq4" only.
        evaluation: int64 (windows, seq_len) of other text, seq_len >= 2; None measures nothing.
        progress: is called after every weight.
        resources: such as a cache; they do not change the result, except as `Resources` says.
        storage: how the reported size is counted.

    Raises:
        QuantError: no calibration text for a scheme that needs it, or a weight that is not finite.
    """
    calibration, device = _needed_text(scheme, calibration), resources.device
    if scheme.choice.rounding == "awq" and resources.ranks.count > 1:
        raise QuantError(f"{scheme.name} cannot be shared by several processes; start one.")
    experts = sum(len(block.experts) for stop in walk(model) for block in mixtures_of(stop.layer))
    if scheme.choice.rounding == "awq" and experts:
        raise QuantError(
            f"{scheme.name} does not support mixtures of experts, which this model has; take gptq4."
        )
    if scheme.choice.folds_rotation:
        require_rotatable(model, scheme.choice.rotation)
    layers, parts = layers_of(model), part_names(model)
    outer = [part.name for part in outer_parts(model)]
    _require_parts(scheme, parts, outer, is_tied(model))
    linear_weights = [_linear_weights(layer) for layer in layers]
    head_weights = model.lm_head.in_features * model.lm_head.out_features
    head_work = 0 if scheme.needs_calibration else head_weights  # next to GPTQ, it takes no time
    measure_work = head_work if evaluation is not None else 0
    work = head_work + sum(linear_weights) + measure_work
    meter = ProgressMeter(work, progress if resources.ranks.first else None)
    cached = find_cached_layers(model, scheme, weights, calibration, evaluation, resources)
    missing = [index for index in range(len(layers)) if cached is None or not cached.has(index)]
    measured = None if cached is None or missing else cached.load_quality()
    if scheme.choice.rotation == "hadamard":
        weights = rotate(model, weights)
    elif scheme.choice.rotation == "learned" and calibration is not None:
        weights = learn_rotation(model, weights, calibration, scheme.group_size, device)
    tied = is_tied(model)

    if scheme.name == "none":
        load_embedding_and_head(model, weights)
    else:
        _fill_ends(model, scheme, weights, calibration, cached, device)
    resources.spill.park(cast(nn.Module, model))
    fill_outer(model, scheme, weights, resources.spill)
    resources.spill.release()
    load_finite(weights, model.model.get_submodule("norm"), "model.norm.")
    meter.advance("model.embed_tokens", head_work)

    calibrated = None
    if calibration is not None and scheme.choice.follows_calibration and missing:
        calibrated = _calibrated(model, scheme, weights, calibration, resources)
    streams = None
    if evaluation is not None and measured is None and resources.ranks.first:
        streams = _EvaluationStreams(model, weights, evaluation, device)
    undertrained: list[str] = []
    for stop in filling_walk(model, weights, resources.spill):
        index, name, layer = stop.index, stop.name, stop.layer
        few: list[str] = []
        is_missing = cached is None or not cached.has(index)
        if calibrated is not None and index > missing[-1]:
            calibrated = None
        catching_up = None if is_missing else calibrated
        is_needed = is_missing or catching_up is not None or streams is not None
        if is_needed:
            stop.load(weights, device, matrices=scheme.name in ("none", KEEP))
        if streams is not None:
            streams.advance_float(stop)
        if catching_up is not None and catching_up.reference is not None:
            catching_up.reference.advance(layer)
        if cached is not None and not is_missing:
            few = cached.load(index, layer)
            if is_needed:
                move(layer, device)
            meter.advance(f"{name}, from the cache", linear_weights[index])
        elif scheme.name == "none":
            meter.advance(name, linear_weights[index])
        elif calibrated is not None and scheme.choice.rounding == "awq":
            awq_layer(layer, scheme, name, calibrated, meter.advance)
        elif calibrated is not None:
            few = gptq_layer(layer, scheme, name, calibrated, meter.advance)
        elif scheme.name == KEEP:
            keep_layer(layer, scheme, name, weights, meter.advance)
            move(layer, device)
        else:
            round_layer(layer, scheme, name, meter.advance)
        if cached is not None and is_missing:
            cached.store(index, layer, few)
        undertrained += [f"{name}.{expert}" for expert in few]
        if catching_up is not None:
            catching_up.hidden.advance(layer)
        if streams is not None:
            streams.advance_quantized(layer)
    del calibrated

    if streams is not None:
        compared = streams.compare(
            model,
            weights,
            tied,
            lambda numbers: meter.advance("quality", numbers if measure_work else 0),
        )
        measured = compared, streams.layer_errors
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


def _fill_ends(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor | None,
    cached: CachedLayers | None,
    device: torch.device,
) -> None:
    """Gives a model its quantized embedding and head."""
    outer = None if cached is None else cached.load_embedding_and_head()
    if outer is None:
        statistics = None
        if scheme.calibrates_head and calibration is not None:
            statistics = head_statistics(model, scheme, weights, calibration, device)
        outer = quantize_embedding_and_head(model, scheme, weights, statistics)
        if cached is not None:
            cached.store_embedding_and_head(*outer)
    set_embedding_and_head(model, *outer)


def _calibrated(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor,
    resources: Resources,
) -> Streams:
    """The calibration text's hidden states before the first layer."""
    spill, ranks, device = resources.spill, resources.ranks, resources.device
    seq_len, reference = calibration.shape[1], None
    if scheme.choice.follows_float:
        embed = partial(embed_float, model, weights)
        contexts = contexts_on(device, model, seq_len, weights)
        reference = Stream(calibration, embed, contexts, spill, ranks, device)
    contexts = contexts_on(device, model, seq_len)
    hidden = Stream(calibration, model.embed, contexts, spill, ranks, device)
    return Streams(hidden, reference, spill, ranks, resources.speed)


def _linear_weights(layer: nn.Module) -> int:
    """How many numbers the linears hold that are to be quantized."""
    linears = [linear for part in parts_of_layer(layer) for linear in part.linears]
    return sum(weight_of(layer, linear).numel() for linear in linears)


class _EvaluationStreams:
    """Hidden states of the evaluation text after the float layers and after the quantized ones."""

    def __init__(
        self, model: CausalLM, weights: WeightSource, tokens: Tensor, device: torch.device
    ) -> None:
        self._tokens = tokens.to(device)
        seq_len = tokens.shape[1]
        embedded = embed_float(model, weights, tokens).to(device)
        contexts = contexts_on(device, model, seq_len, weights)
        self._float = States(embedded, contexts, tokens)
        contexts = contexts_on(device, model, seq_len)
        self._quantized = States(model.embed(tokens).to(device), contexts, tokens)
        self.layer_errors: list[float] = []

    def advance_float(self, stop: Stop) -> None:
        self._float.advance(stop.layer)
        _require_sense(stop.name, bool(self._float.hidden.isfinite().all()))

    def advance_quantized(self, layer: nn.Module) -> None:
        self._quantized.advance(layer)
        wanted, hidden = self._float.hidden, self._quantized.hidden
        self.layer_errors.append(((hidden - wanted).norm() / wanted.norm()).item())

    def compare(
        self,
        model: CausalLM,
        weights: WeightSource,
        tied: bool,
        advance: Callable[[int], None],
    ) -> Quality:
        reference, hidden = (
            states.hidden[:, :-1].flatten(0, 1) for states in (self._float, self._quantized)
        )
        targets = self._tokens[:, 1:].flatten()
        quality = compare_heads(model, weights, tied, reference, hidden, targets, advance)
        _require_sense("lm_head", math.isfinite(quality.perplexity_float))
        return quality


def _require_sense(name: str, finite: bool) -> None:
    """Raises QuantError if the float model computes values that are not finite."""
    if not finite:
        raise QuantError(
            f"{name} gives values that are not finite, in float32 and before any rounding; no "
            "model computes with them: check the checkpoint."
        )
