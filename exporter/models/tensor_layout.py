"""How a checkpoint stores a tensor of the model: renamed, fused, stacked, transposed, ...

Importing this module is fast.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a family is read from config.json before PyTorch is imported
    from torch import Tensor

ROTATED = ("q_proj", "k_proj", "q_norm", "k_norm")  # modules whose rows rotate with their heads


def _itself(tensor: "Tensor") -> "Tensor":
    return tensor


@dataclass(frozen=True)
class Stored:
    """The stored tensors that make one tensor of the model, and how to combine them.

    Attributes:
        names: of the tensors in the checkpoint.
        make: combines these tensors, in that order; it returns a view where possible.
        otherwise: another way in which checkpoints store it; None: there is none.
    """

    names: tuple[str, ...]
    make: "Callable[..., Tensor]" = _itself
    otherwise: "Stored | None" = None

    def among(self, stored: Collection[str]) -> "Stored":
        """Returns the first way whose tensors are all stored; the last, if there is none."""
        if self.otherwise is None or all(name in stored for name in self.names):
            return replace(self, otherwise=None)
        return self.otherwise.among(stored)

    def or_else(self, other: "Stored") -> "Stored":
        """Returns it with another way in which checkpoints may store the tensor."""
        return replace(self, otherwise=other)

    def then(self, change: "Callable[[Tensor], Tensor]") -> "Stored":
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

    def flat(self) -> "Stored":
        """Returns its numbers along one dimension."""
        return self.then(lambda tensor: tensor.flatten())

    def half_split(self, head_dim: int, rotated: int) -> "Stored":
        """Returns rows of heads whose first `rotated` numbers rotate, in the order of heads that
        rotate completely: those that do not rotate are the last ones of each half."""

        def reorder(tensor: "Tensor") -> "Tensor":
            heads = tensor.unflatten(0, (-1, head_dim))
            half = rotated // 2
            first, second, rest = heads.split((half, half, head_dim - rotated), dim=1)
            still = rest.chunk(2, dim=1)
            return concatenate((first, still[0], second, still[1]), dim=1).flatten(0, 1)

        return self if rotated == head_dim else self.then(reorder)

    def from_pairs(self, head_dim: int, rotated: int) -> "Stored":
        """Returns rows of heads whose first `rotated` numbers rotate in pairs of neighbours, in the
        order of heads whose halves rotate with each other."""

        def reorder(tensor: "Tensor") -> "Tensor":
            heads = tensor.unflatten(0, (-1, head_dim))
            turned = heads[:, :rotated].unflatten(1, (-1, 2)).transpose(1, 2).flatten(1, 2)
            return concatenate((turned, heads[:, rotated:]), dim=1).flatten(0, 1)

        return self.then(reorder).half_split(head_dim, rotated)

    def times(self, factor: float) -> "Stored":
        """Returns it times a factor that the decoder would otherwise apply."""
        return self.then(lambda tensor: tensor.float() * factor)

    def plus_one(self) -> "Stored":
        """Returns a norm's weight that is stored minus 1."""
        return self.then(lambda tensor: tensor.float() + 1)


def stacked_expert(gate_up: str, down: str, number: int, part: str, size: int) -> Stored:
    """Returns a matrix of one expert out of two tensors that stack those of all.

    Args:
        gate_up, down: names of the tensors; of the first, each entry has the rows of gate, then
            those of up.
        part: gate_proj, up_proj or down_proj.
        size: intermediate_size of an expert.
    """
    if part == "down_proj":
        return Stored((down,)).entry(number)
    begin = 0 if part == "gate_proj" else size
    return Stored((gate_up,)).entry(number).rows(begin, begin + size)


def joined(*names: str) -> Stored:
    """Returns several tensors, concatenated along their rows."""
    return Stored(names, lambda *tensors: concatenate(tensors))


def stacked(*names: str) -> Stored:
    """Returns several tensors, stacked along a new first dimension."""
    return Stored(names, lambda *tensors: concatenate([tensor[None] for tensor in tensors]))


def concatenate(tensors: "Sequence[Tensor]", dim: int = 0) -> "Tensor":
    """Returns tensors one after another along a dimension."""
    import torch

    return torch.cat(list(tensors), dim)
