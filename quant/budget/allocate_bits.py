"""A budget of bits or bytes, spread over a model's parts where they buy the most.

Every part is stored in one of some types, of 4 to 8 bits, or of 2 to 8 where the budget does not
allow 4 for every part. What that costs in KL is measured
(quant.budget.sensitivity), what it takes in bytes is known, and costs add up: so the best choice is
a multiple-choice knapsack (Sinha and Zoltners, 1979), and small enough to be solved exactly, by
dynamic programming over the bytes.

Each part's cost alone is about right, but layers lose more together than their sum: files of
SmolLM2-135M, of 4.4 to 6.6 bits, lost what their tied ends were said to cost, about twice what
their layers were, and the same for the rounding of activations. So layers count twice.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from quant.budget.bounds import both_or_neither, check_budget, require_spreadable
from quant.budget.known_costs import find_costs
from quant.cache.store import Cache
from quant.errors import QuantError
from quant.layers.blocks import parts_of_layer, shape_of
from quant.layers.embedding_and_head import is_tied
from quant.layers.outside_layers import outer_parts
from quant.layers.walk import walk
from quant.machine.device import HOST
from quant.machine.ranks import ALONE, Ranks
from quant.measure.size import STOCK, Storage, part_bytes, round_up
from quant.progress import ProgressCallback
from quant.protocols import CausalLM, WeightSource
from quant.rounding.scales import GRIDS
from quant.scheme import EMBEDDING_PART, GROUP_SIZES, HEAD_PART, Scheme
from quant.weight_type import INT8, WeightType

_FOUR = 4  # bits of the narrowest type, where the budget allows that for every part
_STEPS = 1 << 18  # at most, into which the bytes to distribute are divided
_MOST_TOKENS = 1024
_ENDS = (EMBEDDING_PART, HEAD_PART)
_LAYERS_TOGETHER = 2.0  # what layers lose, to the sum of what each loses alone


@dataclass(frozen=True)
class Budget:
    """The most that a model may take: one of `bits`, `size` and `even`.

    Attributes:
        bits: on average over all of its numbers, tied ones counted once, scales and all.
        size: bytes of the finished file.
        even: as much as with 4 bits in all layers and 8 in the ends.
        other: bytes of the file that are no weights.
        storage: how its delegate stores weights.
        alignment: bytes, to a multiple of which the file fills up each matrix; 1 for budgets in
            bits, which count no such padding.

    Raises:
        QuantError: both, or neither, or a number out of its range.
    """

    bits: float | None = None
    size: int | None = None
    even: bool = False
    other: int = 0
    storage: Storage = STOCK
    alignment: int = 1

    def __post_init__(self) -> None:
        if (self.bits is not None) + (self.size is not None) + self.even != 1:
            raise both_or_neither()
        check_budget(self.bits, self.size)


@dataclass(frozen=True)
class PartSizes:
    """A part's bytes in each type that it may have."""

    name: str
    sizes: tuple[int, ...]


def allocate_bits(
    model: CausalLM,
    scheme: Scheme,
    budget: Budget,
    weights: WeightSource,
    calibration: Tensor | None,
    begin: Callable[[], None],
    device: torch.device = HOST,
    cache: Cache | None = None,
    ranks: Ranks = ALONE,
    progress: ProgressCallback | None = None,
) -> Scheme:
    """The scheme of 4 bits with the types of its parts that cost the least KL within a budget. What
    is outside the layers besides the two ends has 8 bits. Below 4 bits GPTQ's default is to shrink
    its corrections, which overfit there.

    Args:
        model: on the meta device.
        calibration: int64 (windows, seq_len), some of which the costs are measured on.
        begin: is called before the measurement, once the budget is known to be possible.
        device: what measures.
        cache: of measured costs, which are the same for every budget.
        ranks: the first of them measures.
        progress: of the measurement.

    Raises:
        QuantError: a scheme of another width, no text, or a budget below the least bits for
            everything.
    """
    require_spreadable(scheme)
    fixed = {part.name: INT8 for part in outer_parts(model)}  # whose costs are not measured
    scheme = replace(scheme, head_bits=4, types=tuple(fixed.items()))
    enough = budget.even or _room(budget, model) >= _least(model, scheme, budget, _FOUR)
    fewest = _FOUR if enough else min(GRIDS)
    if not enough and scheme.method is None and scheme.choice.rounding == "gptq":
        scheme = replace(scheme, method=replace(scheme.choice, drift="shrunk"))
    types = types_of(scheme, budget.storage, fewest)
    parts = parts_of(model, scheme, budget.storage, budget.alignment, fewest)
    least = _least(model, scheme, budget, fewest)
    room = least + _even(parts) if budget.even else _room(budget, model)
    if room < least:
        raise QuantError(_too_little(budget, model, scheme))
    widest = len(types) - 1
    if room - least >= sum(part.sizes[widest] - min(part.sizes) for part in parts):
        return _with_choices(scheme, types, model, parts, [widest] * len(parts))
    if calibration is None or calibration.numel() == 0:
        raise QuantError(
            "a budget needs text to measure the effect of bits; name one with --calibration."
        )
    costs = torch.empty(len(parts), len(types), dtype=torch.float64, device=device)
    if ranks.first:
        begin()
        asked = model, scheme.choice, types, weights, sample(calibration)
        measured = find_costs(*asked, device, cache, progress)
        costs.copy_(torch.tensor([measured[part.name] for part in parts], dtype=torch.float64))
    ranks.share(costs, 0)
    for part, alone in zip(parts, costs, strict=True):
        if part.name not in _ENDS:
            alone *= _LAYERS_TOGETHER
    choices = choose(parts, costs.tolist(), room - least)
    return _with_choices(scheme, types, model, parts, choices)


def sample(calibration: Tensor) -> Tensor:
    """The windows of a text on which costs are measured."""
    count = max(1, _MOST_TOKENS // calibration.shape[1])
    return calibration[:: -(-len(calibration) // count)]


def choose(parts: Sequence[PartSizes], costs: Sequence[Sequence[float]], room: int) -> list[int]:
    """Chooses a type for each part such that the sum of costs is least. The choice is exact, unless
    the sizes' common divisor is so small that bytes are rounded up to larger steps.

    Args:
        costs: of each part in each type.
        room: bytes beyond those of the smallest types everywhere.
    """
    extra = [[size - min(part.sizes) for size in part.sizes] for part in parts]
    unit = math.gcd(*(size for sizes in extra for size in sizes)) or 1
    step = max(unit, -(-room // _STEPS))
    capacity = room // step
    best = torch.zeros(capacity + 1, dtype=torch.float64)  # of the parts so far, by the steps used
    chosen = torch.zeros(len(parts), capacity + 1, dtype=torch.uint8)
    steps = [[-(-size // step) for size in sizes] for sizes in extra]
    for index, part_costs in enumerate(costs):
        before, best = best, torch.full_like(best, torch.inf)
        for choice, (size, cost) in enumerate(zip(steps[index], part_costs, strict=True)):
            if size <= capacity:
                candidate = before[: capacity + 1 - size] + cost
                better = candidate < best[size:]
                chosen[index, size:][better] = choice
                best[size:][better] = candidate[better]
    choices, at = [0] * len(parts), capacity
    for index in reversed(range(len(parts))):
        choices[index] = int(chosen[index, at])
        at -= steps[index][choices[index]]
    return choices


def types_of(scheme: Scheme, storage: Storage, fewest: int = _FOUR) -> tuple[WeightType, ...]:
    """The types that a budget chooses from, of at least so many bits, the smallest first."""
    assert scheme.type is not None
    grids = [bits for bits in GRIDS if bits in storage.widths and bits >= fewest]
    widths = grids if scheme.type.levels == 2 else [4]
    return *(replace(scheme.type, bits=bits) for bits in widths), INT8


def parts_of(
    model: CausalLM, scheme: Scheme, storage: Storage, alignment: int = 1, fewest: int = _FOUR
) -> list[PartSizes]:
    """Returns the sizes of a model's parts in each of `types_of`, each linear counted on its own as
    in `stored_size`; tied ends are one part, under the embedding's name.

    Args:
        alignment: as in `Budget`.
        fewest: bits, of `types_of`.
    """
    types = types_of(scheme, storage, fewest)

    def end(bytes_of: Callable[[int, int, WeightType], int]) -> tuple[int, ...]:
        rows, columns = model.lm_head.out_features, model.lm_head.in_features
        sizes = (bytes_of(rows, type.padded(columns), type) for type in types)
        return tuple(round_up(size, alignment) for size in sizes)

    parts = []
    for stop in walk(model):
        for part in parts_of_layer(stop.layer):
            shapes = [shape_of(stop.layer, linear) for linear in part.linears]
            total = (part_bytes(part, shapes, type, storage, alignment) for type in types)
            parts.append(PartSizes(f"{stop.name}.{part.name}", tuple(total)))
    head, ends = end(storage.weight_bytes), end(storage.table_bytes)
    if not is_tied(model):
        parts.append(PartSizes(HEAD_PART, head))
    else:
        shared = (type.bits in storage.shares_tied for type in types)
        ends = tuple(h if one else h + e for h, e, one in zip(head, ends, shared, strict=True))
    parts.append(PartSizes(EMBEDDING_PART, ends))
    return parts


def numbers_of(model: CausalLM) -> int:
    """How many numbers a checkpoint of the model holds, tied ones once."""
    return sum(parameter.numel() for parameter in _module(model).parameters())


def _module(model: CausalLM) -> nn.Module:
    assert isinstance(model, nn.Module)
    return model


def small_numbers(model: CausalLM) -> int:
    """How many numbers stay floats: norms, biases, routers."""
    linears = sum(
        math.prod(shape_of(stop.layer, linear))
        for stop in walk(model)
        for part in parts_of_layer(stop.layer)
        for linear in part.linears
    )
    linears += sum(math.prod(part.shape) for part in outer_parts(model))
    table = model.lm_head.in_features * model.lm_head.out_features
    return numbers_of(model) - linears - (table if is_tied(model) else 2 * table)


def _room(budget: Budget, model: CausalLM) -> int:
    """Bytes that the weights may take."""
    if budget.bits is not None:
        size = budget.bits * numbers_of(model) / 8
        return int(min(size, 2.0**63))  # a float may be more than all disks
    assert budget.size is not None
    return budget.size - budget.other


def _even(parts: Sequence[PartSizes]) -> int:
    """Bytes beyond the smallest types everywhere of 4 bits in the layers and 8 in the ends."""
    sizes = (part.sizes[-1] if part.name in _ENDS else part.sizes[0] for part in parts)
    return sum(sizes) - sum(min(part.sizes) for part in parts)


def _least(model: CausalLM, scheme: Scheme, budget: Budget, fewest: int) -> int:
    """Bytes of the weights with everything in its smallest type."""
    storage, alignment = budget.storage, budget.alignment
    parts = parts_of(model, scheme, storage, alignment, fewest)
    outer = sum(round_up(part.bytes(scheme, storage), alignment) for part in outer_parts(model))
    floats = storage.float_bytes * small_numbers(model)
    return outer + floats + sum(min(part.sizes) for part in parts)


def _too_little(budget: Budget, model: CausalLM, scheme: Scheme) -> str:
    sizes = {
        size: _least(model, replace(scheme, group_size=size), budget, min(GRIDS))
        for size in GROUP_SIZES
    }
    least, smallest = sizes[scheme.group_size], min(sizes, key=sizes.__getitem__)
    other = f", or take --group-size {smallest}" if sizes[smallest] <= _room(budget, model) else ""
    if budget.bits is not None:
        return (
            f"--bits {budget.bits:g} is not possible; in groups of {scheme.group_size} the model "
            f"takes at least {8 * least / numbers_of(model):.3f} bits a weight: ask for more"
            f"{other}."
        )
    assert budget.size is not None
    return (
        f"--max-size {budget.size:,} bytes is not possible; in groups of {scheme.group_size} the "
        f"smallest file may take {least + budget.other:,} bytes: ask for that or more{other}."
    )


def _with_choices(
    scheme: Scheme,
    types: Sequence[WeightType],
    model: CausalLM,
    parts: Sequence[PartSizes],
    choices: Sequence[int],
) -> Scheme:
    """Returns the scheme with the chosen types; tied ends share one."""
    chosen = {
        part.name: types[choice]
        for part, choice in zip(parts, choices, strict=True)
        if types[choice] != scheme.type
    }
    if is_tied(model) and EMBEDDING_PART in chosen:
        chosen[HEAD_PART] = chosen[EMBEDDING_PART]
    return scheme.with_types({**dict(scheme.types), **chosen})
