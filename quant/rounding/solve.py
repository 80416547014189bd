"""One weight, from floats to integers and scales, by the choices of a Method."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from quant.baselines.drift import gptaq_carry, qronos_first
from quant.layers.stream import Shards
from quant.machine.device import HOST, rows_together
from quant.machine.products import integers_are_fast
from quant.machine.ranks import ALONE, Ranks
from quant.machine.threads import for_each
from quant.method import Method
from quant.modules import QuantizedWeight
from quant.rotation.inputs import rotate_blocks
from quant.rounding.activations import Rounded, RuntimeInputs, rotated_codes
from quant.rounding.descent import descend
from quant.rounding.drift import (
    aimed,
    corrected,
    correction,
    drift_products,
    shrunk_aim,
    shrunk_correction,
)
from quant.rounding.gptq import InverseFactor, gptq, gram, hessian_of, inverse_factor
from quant.rounding.int8_gram import int8_gram
from quant.rounding.nearest import closed_scales, search_scales
from quant.rounding.scales import GRIDS, Grid, TwoLevelScales
from quant.weight_type import WeightType


@dataclass(frozen=True)
class Statistics:
    """What linears with the same input share.

    Attributes:
        hessian: float32 (columns, columns) of the inputs, padded.
        factor: of its inverse, damped.
        importance: float32 (columns,) for the search of scales.
        drift: D (columns, columns) against the float model's inputs; None without those, or where
            `correction` stands for it.
        tokens: that the Hessian was summed over.
        carry: of GPTAQ; None with another method.
        correction: (columns, columns) of `quant.rounding.drift`, where weights of more rows than
            columns share it; else None.
    """

    hessian: Tensor
    factor: InverseFactor
    importance: Tensor
    drift: Tensor | None
    carry: Tensor | None
    tokens: int
    correction: Tensor | None = None

    @property
    def has_drift(self) -> bool:
        return self.drift is not None or self.correction is not None


def statistics(
    inputs: Shards,
    reference: Sequence[Iterable[Tensor]] | None,
    tokens: int,
    rows: int,
    columns: int,
    method: Method,
    total: Callable[[Iterable[Tensor]], Tensor],
    device: torch.device,
) -> Statistics:
    """Gathers the statistics of a linear's inputs.

    Args:
        inputs: after quantized layers, float32 (..., in_features) each, or Rounded.packed().
        reference: the float model's for the same tokens, or None.
        tokens: of all ranks.
        rows: of all weights with this input.
        columns: of the padded weight.
        total: adds what is computed of each shard, over all ranks.
        device: of the inputs, of which there may be none here.
    """
    inputs_of = runtime_inputs_of(method)
    if method.int8_statistics and device == HOST and integers_are_fast():
        rounded = rounded_by(method)
        products = total(int8_gram(map(rounded, shard), columns) for shard in inputs)
    else:
        products = total(
            gram((inputs_of(x).floats() for x in shard), columns, device) for shard in inputs
        )
    hessian = hessian_of(products, tokens)
    factor = inverse_factor(hessian, method.damp_percent, method.act_order)
    importance = hessian.diagonal().contiguous()  # strided, it costs ten times the search
    if method.importance == "inverse":
        importance = torch.where(importance == 0, 0.0, 1 / factor.inverse_diagonal())
    drift = carry = shared = None
    if reference is not None:
        drift = total(
            drift_products(
                zip(map(rotated_by(method), target), map(inputs_of, shard), strict=True),
                columns,
                device,
                method.drift == "shrunk",
            )
            for target, shard in zip(reference, inputs, strict=True)
        ).mul_(2 / max(tokens, 1))
        if method.drift == "gptaq":
            carry = gptaq_carry(drift, factor, method.drift_share)
        elif method.drift == "shrunk":
            live = int(hessian.diagonal().count_nonzero())
            shared, drift = shrunk_correction(drift, factor, live, tokens), None
        elif method.drift != "qronos" and rows > columns:
            shared = correction(drift, factor, method.drift_share)
            drift = None
    return Statistics(hessian, factor, importance, drift, carry, tokens, shared)


def runtime_inputs_of(method: Method) -> Callable[[Tensor], RuntimeInputs]:
    """A linear's input, (..., in_features) or packed, as its weight sees it: at run time, it is
    rotated and rounded to int8."""

    def inputs_of(x: Tensor) -> RuntimeInputs:
        if not method.int8_statistics:
            return RuntimeInputs(rotated_by(method)(x).flatten(0, -2), None)
        codes, scale = rotated_codes(x, method.rotated(x.shape[-1]))
        return RuntimeInputs(codes.flatten(0, -2), scale.flatten(0, -2))

    return inputs_of


def rounded_by(method: Method) -> Callable[[Tensor], Rounded]:
    """A linear's input, (..., in_features) or packed, as it is rounded at run time."""
    rotate = rotated_by(method)
    return lambda x: Rounded.unpacked(x) if x.dtype is torch.int8 else Rounded.of(rotate(x))


def rotated_by(method: Method) -> Callable[[Tensor], Tensor]:
    """Rotates inputs, or weights, (..., in_features) in their blocks, where the method does."""
    return lambda x: rotate_blocks(x, method.rotated(x.shape[-1]))


def solve(
    weight: Tensor,
    type: WeightType,
    method: Method,
    statistics: Statistics,
    wanted: Tensor | None,
    ranks: Ranks = ALONE,
) -> QuantizedWeight:
    """Chooses the integers and scales of a weight, some rows at a time; ranks take turns.

    Args:
        weight: float32 (rows, in_features).
        type: of 2 to 6 bits, in groups.
        statistics: of its inputs, padded to at least as many columns as the type stores.
        wanted: B (rows, columns) of `quant.rounding.drift`, with its squares for "shrunk"; None if
            nothing has drifted, or if `statistics` describes the drift of the inputs.
    """
    stored, group_size = type.padded(weight.shape[1]), type.group_size
    grid = GRIDS[type.bits]
    weight = padded_as(weight, statistics)
    rows, columns = weight.shape
    values = weight.new_empty(weight.shape, dtype=torch.int8)
    multiple = weight.new_empty(rows, columns // group_size, dtype=torch.uint8)
    row_scale = weight.new_empty(rows, 1)
    owners: list[tuple[slice, int]] = []
    together = rows_together(weight.device)
    for start in range(0, rows, together):
        owners.append((slice(start, start + together), ranks.next_owner()))
    damped = statistics.factor.damped(statistics.hessian) if method.descent else None

    def solve_rows(here: slice) -> None:
        part = None if wanted is None else wanted[here]
        values[here], scales = _solve_rows(
            weight[here], grid, group_size, method, statistics, part, damped
        )
        multiple[here], row_scale[here] = scales.multiple, scales.row_scale

    own = (here for here, owner in owners if owner == ranks.rank)
    for_each(solve_rows, own, weight.device)
    for here, owner in owners:
        for tensor in (values, multiple, row_scale):
            ranks.share(tensor[here], owner)
    values = values[:, :stored].contiguous()
    floats = TwoLevelScales(multiple, row_scale).product()
    return QuantizedWeight(values, floats[:, : stored // group_size].contiguous(), type)


def padded_as(weight: Tensor, statistics: Statistics) -> Tensor:
    """A weight (rows, in_features) with as many columns as the statistics of its inputs."""
    padding = len(statistics.hessian) - weight.shape[1]
    return F.pad(weight, (0, padding)) if padding else weight


def target_weight(
    weight: Tensor, method: Method, statistics: Statistics, wanted: Tensor | None
) -> Tensor:
    """The float weight (rows, columns) whose outputs are wanted, now that inputs have drifted."""
    factor, share = statistics.factor, method.drift_share
    if statistics.correction is not None:
        return torch.addmm(weight, weight, statistics.correction)
    if statistics.drift is not None:
        return corrected(weight, weight @ statistics.drift, factor, share)
    if wanted is not None and method.drift == "shrunk":
        return shrunk_aim(weight, wanted, statistics.hessian, factor, statistics.tokens)
    if wanted is not None:
        return aimed(weight, wanted, statistics.hessian, factor, share)
    return weight


def _solve_rows(
    weight: Tensor,
    grid: Grid,
    group_size: int,
    method: Method,
    statistics: Statistics,
    wanted: Tensor | None,
    damped: Tensor | None,
) -> tuple[Tensor, TwoLevelScales]:
    """Rows do not depend on each other: the same for some rows (rows, columns) of a weight."""
    target, first = target_weight(weight, method, statistics, wanted), None
    if method.drift == "qronos" and statistics.drift is not None:
        hessian, factor = statistics.hessian, statistics.factor
        first = qronos_first(weight, statistics.drift, hessian, factor, method.drift_share)
    start = weight if statistics.carry is not None else target
    if method.scales == "searched":
        scales = search_scales(start, group_size, statistics.importance, grid)
    else:
        scales = closed_scales(start, group_size, grid)
    values = gptq(start, scales, statistics.factor, carry=statistics.carry, first=first)
    if damped is not None:
        return descend(target, values, scales, damped, method.descent)
    return values, scales
