"""The inputs on which a file is compared with its module."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from exporter.module.signature import Signature, Size
from exporter.module.source import Inputs, Made

MOST_CALIBRATION = 4
_LARGEST = 1 << 26  # numbers of an input: a Dim's end beyond it is not tried
_CALLS = 3  # in a row, where there is state


@dataclass(frozen=True)
class Sample:
    """
    Attributes:
        title: such as "batch = 8".
        calls: in a row, which matters where there is state.
    """

    title: str
    calls: tuple[Inputs, ...]


def samples(made: Made, signature: Signature) -> list[Sample]:
    """Returns the example, random numbers of its shapes, those with channels-last strides, the ends
    of each Dim, and calibration inputs."""
    generator = torch.Generator().manual_seed(0)
    leaves = made.inputs.leaves()
    titled = [("the example", leaves), ("random numbers", _others(leaves, generator))]
    if any(leaf.dim() == 4 for leaf in leaves):
        titled.append(("channels-last strides", [_channels_last(leaf) for leaf in leaves]))
    titled += [(title, _others(resized, generator)) for title, resized in _ends(leaves, signature)]
    calls = [(title, made.inputs.with_leaves(tensors)) for title, tensors in titled]
    given = made.calibration[:MOST_CALIBRATION]
    calls += [(f"calibration[{index}]", inputs) for index, inputs in enumerate(given)]
    if not signature.state:
        return [Sample(title, (inputs,)) for title, inputs in calls]
    return [
        Sample(
            title,
            tuple(inputs.with_leaves(_others(inputs.leaves(), generator)) for _ in range(_CALLS)),
        )
        for title, inputs in calls
    ]


def with_nans(made: Made, index: int) -> list[Inputs]:
    """Returns the example with a NaN in one input: in its first or second place, in its middle, or
    in its last. A kernel may lose one that is not the first of its window."""
    count = made.inputs.leaves()[index].numel()
    changed = []
    for place in dict.fromkeys((0, min(1, count - 1), count // 2, count - 1)):
        leaves = [leaf.clone() for leaf in made.inputs.leaves()]
        leaves[index].view(-1)[place] = float("nan")
        changed.append(made.inputs.with_leaves(leaves))
    return changed


def _ends(leaves: list[Tensor], signature: Signature) -> Iterator[tuple[str, list[Tensor]]]:
    """For each Dim the example at its least and its largest size, if not its own, where memory
    allows it."""
    sizes = [size for spec in signature.inputs for size in spec.sizes]
    for symbol in dict.fromkeys(size.symbol for size in sizes if size.symbol):
        own = next(size for size in sizes if size.symbol == symbol)
        ends = dict.fromkeys((own.least, own.most))
        for end in ends:
            value = (end - own.offset) // own.factor
            resized = [
                _resized(leaf, spec.sizes, symbol, value)
                for leaf, spec in zip(leaves, signature.inputs, strict=True)
            ]
            same = all(x is y for x, y in zip(resized, leaves, strict=True))
            if not same and all(tensor is not None for tensor in resized):
                yield f"{symbol} = {value}", [tensor for tensor in resized if tensor is not None]


def _resized(leaf: Tensor, sizes: tuple[Size, ...], symbol: str, value: int) -> Tensor | None:
    """Repeats or cuts the sizes of a symbol; None if the result would be too large."""
    shape = [
        size.factor * value + size.offset if size.symbol == symbol else known
        for size, known in zip(sizes, leaf.shape, strict=True)
    ]
    if torch.Size(shape).numel() > _LARGEST:
        return None
    for index, (size, known) in enumerate(zip(shape, leaf.shape, strict=True)):
        if size != known:
            leaf = leaf.index_select(index, torch.arange(size) % max(known, 1))
    return leaf.contiguous()


def _others(leaves: list[Tensor], generator: torch.Generator) -> list[Tensor]:
    """The same numbers in another order, floats moved by a tenth: whole numbers, such as places in
    a table, stay what they may be."""
    return [_other(leaf, generator) for leaf in leaves]


def _other(leaf: Tensor, generator: torch.Generator) -> Tensor:
    flat = leaf.reshape(-1)
    mixed = flat[torch.randperm(len(flat), generator=generator)].reshape(leaf.shape)
    if not leaf.is_floating_point():
        return mixed
    noise = torch.randn(leaf.shape, generator=generator)
    return (mixed * (1 + 0.1 * noise)).to(leaf.dtype)


def _channels_last(leaf: Tensor) -> Tensor:
    return leaf.to(memory_format=torch.channels_last) if leaf.dim() == 4 else leaf
