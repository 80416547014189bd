"""Indices that count. All are views of the same numbers, so that those of large values take no
memory, and most questions about them are answered by sizes and strides."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

_known: list[Tensor] = []  # each longer than the one before


def counting(shape: Sequence[int]) -> Tensor:
    """Returns 0, 1, 2 and so on in the order of a shape, int64; nobody writes to it."""
    count = prod(shape)
    if not _known or len(_known[-1]) < count:
        _known.append(torch.arange(1 << max(count - 1, 0).bit_length()))
    return _known[-1][:count].view(tuple(shape))


def forget() -> None:
    """Gives the memory back; indices that are still held stay right."""
    _known.clear()


def start_of(index: Tensor) -> int | None:
    """Returns the first number if the others follow it in the order of the index; else None."""
    if not index.numel():
        return 0
    if index.is_contiguous() and _is_view(index):
        return int(index.storage_offset())
    start, last = (int(index[(place,) * index.dim()]) for place in (0, -1))
    if last != start + index.numel() - 1:
        return None
    return start if bool((index == counting(index.shape) + start).all()) else None


def has_each_once(index: Tensor) -> bool:
    """Whether it has all numbers below its count, in any order."""
    if index.storage_offset() == 0 and _is_view(index):
        dims = sorted(range(index.dim()), key=index.stride, reverse=True)
        if index.permute(dims).is_contiguous():
            return True
    if bool((index < 0).any()) or bool((index >= index.numel()).any()):
        return False
    seen = torch.zeros(index.numel(), dtype=torch.bool)
    seen[index.flatten()] = True
    return bool(seen.all())


def are_equal(one: Tensor, other: Tensor) -> bool:
    """Whether two indices of the same shape have the same numbers."""
    if one.data_ptr() == other.data_ptr() and one.stride() == other.stride():
        return True
    return torch.equal(one, other)


def _is_view(index: Tensor) -> bool:
    address = index.untyped_storage().data_ptr()
    return any(address == known.untyped_storage().data_ptr() for known in _known)
