"""A budget of bits or bytes, spread over a model's parts where they buy the most.

Every part is stored in 4 bits or in 8. What that costs in KL is measured (quant.sensitivity), what
it takes in bytes is known, and costs add up: so the best choice is a knapsack, and small enough to
be solved exactly (Bellman, 1957).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from quant.blocks import parts_of_layer
from quant.device import HOST
from quant.ends import is_tied
from quant.errors import QuantError
from quant.protocols import CausalLM, WeightSource
from quant.scheme import EMBEDDING_PART, GROUP_SIZES, HEAD_PART, METHODS, Scheme
from quant.sensitivity import measure_costs
from quant.size import STOCK, Storage
from quant.walk import walk

_STEPS = 4096  # of the bytes there are to give away
_MOST_TOKENS = 4096


@dataclass(frozen=True)
class Budget:
    """What a model may take, at most; one of `bits` and `size`.

    Attributes:
        bits: on average over all of its numbers, tied ones counted once, scales and all.
        size: bytes of the finished file.
        other: bytes of the file that are no weights.
        storage: how its delegate stores weights.

    Raises:
        QuantError: both, or neither, or a number that is not above 0.
    """

    bits: float | None = None
    size: int | None = None
    other: int = 0
    storage: Storage = STOCK

    def __post_init__(self) -> None:
        if (self.bits is None) == (self.size is None):
            raise QuantError("a budget is in bits or in bytes; give one of --bits and --max-size.")
        if self.bits is not None and not 0 < self.bits < math.inf:
            raise QuantError(
                f"--bits {self.bits:g} is no budget; give a number above 0, such as 6."
            )
        if self.size is not None and self.size < 1:
            raise QuantError(f"--max-size {self.size} is no budget; give a size above 0.")


@dataclass(frozen=True)
class Part:
    """A part's bytes in either width."""

    name: str
    at4: int
    at8: int


def spread(
    model: CausalLM,
    scheme: Scheme,
    budget: Budget,
    weights: WeightSource,
    calibration: Tensor | None,
    begin: Callable[[], None],
    device: torch.device = HOST,
) -> Scheme:
    """The scheme of 4 bits with those parts made wide that lower KL the most within a budget.

    Args:
        model: on the meta device.
        calibration: int64 (windows, seq_len), some of which the costs are measured on.
        begin: is called before the measuring, once the budget is known to be possible.
        device: what measures.

    Raises:
        QuantError: a scheme of another width, no text, or a budget below 4 bits for everything.
    """
    if scheme.name not in METHODS:
        raise QuantError(
            f"a budget spreads 4 and 8 bits, and {scheme.name} stores {scheme.bits}; take one of "
            f"{', '.join(METHODS)}."
        )
    scheme = replace(scheme, head_bits=4, wide=())
    parts = parts_of(model, scheme.group_size, budget.storage)
    rest = budget.storage.float_bytes * _small_numbers(model)
    least = rest + sum(part.at4 for part in parts)
    numbers = numbers_of(model)
    room = _room(budget, numbers)
    if room < least:
        raise QuantError(_too_little(budget, model, numbers, scheme.group_size))
    if room >= rest + sum(part.at8 for part in parts):
        return replace(scheme, wide=_with_tied_head(model, [part.name for part in parts]))
    if calibration is None or calibration.numel() == 0:
        raise QuantError(
            "a budget was given no text to measure what bits buy; name one with --calibration."
        )
    begin()
    count = max(1, _MOST_TOKENS // calibration.shape[1])
    sample = calibration[:: -(-len(calibration) // count)]
    costs = measure_costs(model, scheme, weights, sample, device)
    gains = {name: cost.at4 - cost.at8 for name, cost in costs.items()}
    return replace(scheme, wide=_with_tied_head(model, choose(parts, gains, room - least)))


def choose(parts: Sequence[Part], gains: Mapping[str, float], room: int) -> list[str]:
    """The parts that are best made wide: an exact 0/1 knapsack, bytes rounded up to steps.

    Args:
        gains: what KL loses with a part's 8 bits.
        room: bytes beyond those of 4 bits everywhere.
    """
    step = max(1, -(-room // _STEPS))
    capacity = room // step
    best = torch.zeros(capacity + 1, dtype=torch.float64)
    taken = torch.zeros(len(parts), capacity + 1, dtype=torch.bool)
    for index, part in enumerate(parts):
        size = -(-(part.at8 - part.at4) // step)
        if size > capacity or gains[part.name] <= 0:
            continue
        candidate = best[: capacity + 1 - size] + gains[part.name]
        taken[index, size:] = candidate > best[size:]
        best[size:] = torch.maximum(best[size:], candidate)
    chosen, at = [], capacity
    for index in reversed(range(len(parts))):
        if taken[index, at]:
            chosen.append(parts[index].name)
            at -= -(-(parts[index].at8 - parts[index].at4) // step)
    return chosen[::-1]


def parts_of(model: CausalLM, group_size: int, storage: Storage) -> list[Part]:
    """What a model's parts take; tied ends are one, under the embedding's name."""

    def size(shapes: Sequence[tuple[int, int]], bits: int) -> int:
        # On a device that joins them, a part is one matrix.
        rows, columns = sum(shape[0] for shape in shapes), shapes[0][1]
        return storage.weight_bytes(rows, columns, bits, group_size)

    parts = []
    for stop in walk(model):
        for part in parts_of_layer(stop.layer):
            shapes = [_shape(stop.layer.get_submodule(linear)) for linear in part.linears]
            parts.append(Part(f"{stop.name}.{part.name}", size(shapes, 4), size(shapes, 8)))
    end = (model.lm_head.out_features, model.lm_head.in_features)
    head = {bits: size([end], bits) for bits in (4, 8)}
    ends = {bits: storage.table_bytes(*end, bits, group_size) for bits in (4, 8)}
    if not is_tied(model):
        parts.append(Part(HEAD_PART, head[4], head[8]))
    else:
        for bits in (4, 8):
            ends[bits] = head[bits] + (0 if bits in storage.shares_tied else ends[bits])
    parts.append(Part(EMBEDDING_PART, ends[4], ends[8]))
    return parts


def numbers_of(model: CausalLM) -> int:
    """How many numbers a checkpoint of the model holds, tied ones once."""
    return sum(parameter.numel() for parameter in _module(model).parameters())


def _module(model: CausalLM) -> nn.Module:
    assert isinstance(model, nn.Module)
    return model


def _shape(linear: nn.Module) -> tuple[int, int]:
    rows, columns = linear.get_parameter("weight").shape
    return rows, columns


def _small_numbers(model: CausalLM) -> int:
    """Norms and biases."""
    return sum(p.numel() for p in _module(model).parameters() if p.dim() == 1)


def _room(budget: Budget, numbers: int) -> int:
    """Bytes that the weights may take."""
    if budget.bits is not None:
        return int(min(budget.bits * numbers / 8, 2.0**63))  # a float may be more than all disks
    assert budget.size is not None
    return budget.size - budget.other


def _least(model: CausalLM, group_size: int, storage: Storage) -> int:
    """Bytes of the weights with everything in 4 bits."""
    parts = parts_of(model, group_size, storage)
    return storage.float_bytes * _small_numbers(model) + sum(part.at4 for part in parts)


def _too_little(budget: Budget, model: CausalLM, numbers: int, group_size: int) -> str:
    sizes = {size: _least(model, size, budget.storage) for size in GROUP_SIZES}
    least, smallest = sizes[group_size], min(sizes, key=sizes.__getitem__)
    other = "" if sizes[smallest] == least else f", or --group-size {smallest}"
    if budget.bits is not None:
        return (
            f"--bits {budget.bits:g} cannot be kept; with everything in 4 bits, in groups of "
            f"{group_size}, the model takes {8 * least / numbers:.3f} bits a weight: ask for more"
            f"{other}."
        )
    assert budget.size is not None
    return (
        f"--max-size {budget.size:,} bytes cannot be kept; with everything in 4 bits, in "
        f"groups of {group_size}, the file may take {least + budget.other:,}: ask for "
        f"more{other}."
    )


def _with_tied_head(model: CausalLM, names: Sequence[str]) -> tuple[str, ...]:
    """Tied ends are wide together."""
    tied = is_tied(model) and EMBEDDING_PART in names
    return (*names, HEAD_PART) if tied else tuple(names)
