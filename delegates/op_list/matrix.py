"""The matrices of a graph, and which of them become one packed weight."""

from dataclasses import dataclass, replace

from torch.fx import Node

from delegates.op_list.layout import BLOCK_ROWS, Format, round_up, stored_columns


@dataclass(frozen=True)
class MatrixSource:
    """The tensors of one matrix.

    Attributes:
        values: placeholder of int8 values or of the float32 matrix, (rows, columns or more).
        scales: placeholder of float32 (rows, groups); None for float32.
        columns: inputs, without padding.
    """

    values: Node
    scales: Node | None
    format: Format
    rows: int
    columns: int
    group_size: int

    def is_stored_like(self, other: "MatrixSource") -> bool:
        """Whether the two can be rows of one matrix."""
        mine = self.format, self.columns, self.group_size
        return mine == (other.format, other.columns, other.group_size)


@dataclass(frozen=True)
class Matrix:
    """One packed weight: matrices one below the other, or two whose blocks alternate.

    Attributes:
        interleaved: blocks of 16 rows of both sources alternate; each is padded to full blocks.
        experts: how many matrices of equal form it consists of, one below the other, each padded
            to full blocks; as many of the sources belong to each.
    """

    sources: tuple[MatrixSource, ...]
    interleaved: bool = False
    experts: int = 1

    @property
    def rows(self) -> int:
        if self.experts > 1:
            return self.experts * round_up(self.each[0].rows, BLOCK_ROWS)
        if self.interleaved:
            return sum(round_up(source.rows, BLOCK_ROWS) for source in self.sources)
        return sum(source.rows for source in self.sources)

    @property
    def each(self) -> "list[Matrix]":
        """The matrices of the experts."""
        size = len(self.sources) // self.experts
        return [
            replace(self, sources=self.sources[first : first + size], experts=1)
            for first in range(0, len(self.sources), size)
        ]

    @property
    def columns(self) -> int:
        return self.sources[0].columns

    @property
    def group_size(self) -> int:
        return self.sources[0].group_size

    @property
    def format(self) -> Format:
        return self.sources[0].format

    @property
    def is_float(self) -> bool:
        return self.format is Format.FLOAT32

    @property
    def input_group(self) -> int:
        """Columns of its input that are rounded together; 0: all."""
        return self.group_size if self.format in (Format.INT4, Format.INT8_GROUPS) else 0

    @property
    def stored_columns(self) -> int:
        return stored_columns(self.format, self.columns, self.group_size)

    def tensors(self) -> list[Node]:
        """The placeholders of all its sources."""
        nodes = [node for source in self.sources for node in (source.values, source.scales)]
        return [node for node in nodes if node is not None]
