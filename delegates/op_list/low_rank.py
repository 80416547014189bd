"""The matrices of adapters: a blob of float16 numbers for each adapter, and where its parts lie."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from delegates.op_list.graph import Constants, shape_of
from delegates.op_list.layout import BLOCK_ROWS, LINE_BYTES
from delegates.op_list.matrix import Matrix


@dataclass(frozen=True)
class Pair:
    """The matrices of one adapter for one linear.

    Attributes:
        adapter: its name.
        a: placeholder of float16 (rank, columns).
        b: placeholder of float16 (rank, rows).
        scale: of their product.
    """

    adapter: str
    a: Node
    b: Node
    scale: float


@dataclass(frozen=True)
class LowRank:
    """The table of the schema.

    Attributes:
        adapter: its number in the program.
        first_row: of the weight, from which on its outputs are added.
        rows: how many outputs.
        a, b: offsets in the adapter's blob, in numbers.
    """

    adapter: int
    first_row: int
    rows: int
    rank: int
    a: int
    b: int
    scale: float


class AdapterBlobs:
    """The blobs of all adapters as they grow; a tensor is stored once.

    Args:
        names: of the adapters, in the order of their numbers.
    """

    _LINE = LINE_BYTES // 2  # numbers; what is stored starts at a line

    def __init__(self, constants: Constants, names: Iterable[str]) -> None:
        self._constants = constants
        self.names = list(names)
        self._parts: list[list[NDArray[np.float16]]] = [[] for _ in self.names]
        self._sizes = [0] * len(self.names)
        self._known: dict[tuple[int, Node], int] = {}

    def place(self, matrix: Matrix, pairs: Sequence[Sequence[Pair]]) -> list[LowRank]:
        """Stores the pairs of each source of a matrix."""
        placed, first_row = [], 0
        for source, some in zip(matrix.sources, pairs, strict=True):
            for pair in some:
                adapter = self.names.index(pair.adapter)
                rank, rows = shape_of(pair.b)
                a = self._store(adapter, pair.a, np.ravel)
                b = self._store(adapter, pair.b, in_blocks)
                placed.append(LowRank(adapter, first_row, rows, rank, a, b, pair.scale))
            first_row += BLOCK_ROWS if matrix.interleaved else source.rows
        return placed

    def data(self, adapter: int) -> bytes:
        return b"".join(part.tobytes() for part in self._parts[adapter])

    def _store(self, adapter: int, node: Node, layout: Callable[[NDArray], NDArray]) -> int:
        key = adapter, node
        if key not in self._known:
            numbers = layout(self._constants.tensor(node).numpy())
            self._known[key] = self._sizes[adapter]
            padded = np.pad(numbers, (0, -numbers.size % self._LINE))
            self._parts[adapter].append(padded)
            self._sizes[adapter] += padded.size
        return self._known[key]


def in_blocks(b: NDArray) -> NDArray:
    """(rank, rows) as (blocks of 16 rows, rank, 16), flat, with zeros behind the last row."""
    padded = np.pad(b, ((0, 0), (0, -b.shape[1] % BLOCK_ROWS)))
    return padded.reshape(len(b), -1, BLOCK_ROWS).swapaxes(0, 1).ravel()
