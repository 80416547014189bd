"""How a checkpoint keeps a tensor of ours: under another name, fused, stacked, transposed, ..."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def _itself(tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class Stored:
    """The stored tensors that make one of ours, and how.

    Attributes:
        names: of the tensors in the checkpoint.
        make: takes these tensors, in that order; views where it can, so that nothing is copied.
    """

    names: tuple[str, ...]
    make: Callable[..., Tensor] = _itself

    def then(self, change: Callable[[Tensor], Tensor]) -> "Stored":
        """The same, changed once more."""
        return Stored(self.names, lambda *tensors: change(self.make(*tensors)))

    def rows(self, begin: int, end: int) -> "Stored":
        """Rows begin .. end - 1, of a tensor that several of ours are fused into."""
        return self.then(lambda tensor: tensor.narrow(0, begin, end - begin))

    def entry(self, index: int) -> "Stored":
        """One of several tensors that are stacked along a first dimension of their own."""
        return self.then(lambda tensor: tensor[index])

    def transposed(self) -> "Stored":
        """With rows and columns exchanged, as in (in_features, out_features)."""
        return self.then(lambda tensor: tensor.mT)

    def plus_one(self) -> "Stored":
        """A norm's weight that is stored as its distance from 1."""
        return self.then(lambda tensor: tensor.float() + 1)


def joined(*names: str) -> Stored:
    """Several tensors, the rows of one after those of the other."""
    return Stored(names, lambda *tensors: torch.cat(tensors))


def stacked(*names: str) -> Stored:
    """Several tensors, along a new first dimension."""
    return Stored(names, lambda *tensors: torch.stack(tensors))
