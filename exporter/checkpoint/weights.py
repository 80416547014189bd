"""The interface of a checkpoint format: tensors by their Hugging Face names."""

from typing import Protocol

import torch
from torch import Tensor


class Weights(Protocol):
    """Stored tensors, mapped and read on demand."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every stored tensor by its Hugging Face name."""

    def dtype(self, name: str) -> torch.dtype:
        """Returns the type in which a tensor is stored."""

    def tensor(self, name: str) -> Tensor:
        """Returns a tensor as it is stored."""

    def release(self) -> None:
        """Releases the memory that reading has made resident."""
