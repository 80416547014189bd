"""The matrices of a graph, and which of them become one packed weight."""

from dataclasses import dataclass

from torch.fx import Node

from delegates.op_list.layout import Format, round_up, stored_columns


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
    """

    sources: tuple[MatrixSource, ...]
    interleaved: bool = False

    @property
    def rows(self) -> int:
        if self.interleaved:
            return sum(round_up(source.rows, 16) for source in self.sources)
        return sum(source.rows for source in self.sources)

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
    def stored_columns(self) -> int:
        return stored_columns(self.format, self.columns, self.group_size)

    def tensors(self) -> list[Node]:
        """The placeholders of all its sources."""
        nodes = [node for source in self.sources for node in (source.values, source.scales)]
        return [node for node in nodes if node is not None]
