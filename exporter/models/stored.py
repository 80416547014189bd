"""How a checkpoint stores a tensor of the model: renamed, fused, stacked, transposed, ..."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def _itself(tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class Stored:
    """The stored tensors that make one tensor of the model, and how to combine them.

    Attributes:
        names: of the tensors in the checkpoint.
        make: combines these tensors, in that order; it returns a view where possible.
    """

    names: tuple[str, ...]
    make: Callable[..., Tensor] = _itself

    def then(self, change: Callable[[Tensor], Tensor]) -> "Stored":
        """Returns the same with one more step at the end."""
        return Stored(self.names, lambda *tensors: change(self.make(*tensors)))

    def rows(self, begin: int, end: int) -> "Stored":
        """Returns rows begin .. end - 1 of a fused tensor."""
        return self.then(lambda tensor: tensor.narrow(0, begin, end - begin))

    def entry(self, index: int) -> "Stored":
        """Returns one entry of a tensor that stacks several along its first dimension."""
        return self.then(lambda tensor: tensor[index])

    def transposed(self) -> "Stored":
        """Returns it with rows and columns exchanged: stored as (in_features, out_features)."""
        return self.then(lambda tensor: tensor.mT)

    def plus_one(self) -> "Stored":
        """Returns a norm's weight that is stored minus 1."""
        return self.then(lambda tensor: tensor.float() + 1)


def joined(*names: str) -> Stored:
    """Returns several tensors, concatenated along their rows."""
    return Stored(names, lambda *tensors: torch.cat(tensors))


def stacked(*names: str) -> Stored:
    """Returns several tensors, stacked along a new first dimension."""
    return Stored(names, lambda *tensors: torch.stack(tensors))
