"""What a checkpoint format has to offer: tensors by their Hugging Face names."""

from typing import Protocol

import torch
from torch import Tensor


class Weights(Protocol):
    """Stored tensors, mapped and read on demand."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every stored tensor by its Hugging Face name."""

    def dtype(self, name: str) -> torch.dtype:
        """The type one tensor is stored in."""

    def tensor(self, name: str) -> Tensor:
        """One tensor as it is stored."""

    def release(self) -> None:
        """Gives back the memory that reading has made resident."""
