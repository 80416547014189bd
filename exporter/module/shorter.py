"""Inputs of one sample that may have fewer rows than in the example of them."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Shorter:
    """
    Attributes:
        symbol: what signatures call the number of rows, dimension 1 of these inputs.
        arguments: of forward(): tensors (1, rows, width), or lists of them.
        least: rows; the most are the example's.
    """

    symbol: str
    arguments: tuple[str, ...]
    least: int

    def among(self, names: Iterable[str]) -> list[str]:
        """Those of a program's inputs."""
        return [
            name
            for name in names
            if any(name == one or name.startswith(f"{one}_") for one in self.arguments)
        ]
