"""The fused operators of delegates/cpu/program.fbs, before slots and packed weights are known."""

from dataclasses import dataclass, field

from torch.fx import Node

from delegates.cpu.layout import Format, round_up, stored_columns
from delegates.cpu.units import HeadNorm, Rotation, WeightSource


@dataclass(eq=False)
class Buffer:
    """Rows that one operator writes and others read; a slot is found for it later."""

    width: int
    one_row: bool = False


@dataclass(frozen=True)
class View:
    """A value of the graph: `width` columns of a buffer."""

    buffer: Buffer
    offset: int
    width: int

    @property
    def is_whole(self) -> bool:
        return self.width == self.buffer.width


@dataclass(frozen=True)
class Matrix:
    """What becomes one packed weight: matrices one below the other, or two in alternation.

    Attributes:
        interleaved: blocks of 16 rows of both sources alternate, each padded to whole blocks.
    """

    sources: tuple[WeightSource, ...]
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
        """INT4 stands for both formats of 4 bits."""
        return self.sources[0].format

    @property
    def is_float(self) -> bool:
        return self.format is Format.FLOAT32

    @property
    def stored_columns(self) -> int:
        return stored_columns(self.format, self.columns, self.group_size)


@dataclass(eq=False)
class Operator:
    """
    Attributes:
        name: module path.
        nodes: what it covers but its preparation.
        prepare_nodes: what its preparation covers.
        output: what it writes, or adds to.
    """

    name: str
    nodes: list[Node]
    prepare_nodes: list[Node]
    output: Buffer

    def reads(self) -> list[Buffer]:
        return []


@dataclass(eq=False)
class Embedding(Operator):
    tokens: Node
    matrix: Matrix


@dataclass(eq=False)
class Norm(Operator):
    input: View
    weight: Node
    eps: float

    def reads(self) -> list[Buffer]:
        return [self.input.buffer]


@dataclass(eq=False)
class Linear(Operator):
    input: View
    matrix: Matrix
    biases: tuple[Node | None, ...]
    norm: HeadNorm | None
    swiglu: bool = False
    accumulate: bool = False
    last_row: bool = False
    prepared: bool = False

    def reads(self) -> list[Buffer]:
        return [self.input.buffer] + [self.output] * self.accumulate

    def is_prepared_by(self, other: "Linear") -> bool:
        """Whether it quantizes what the other did, just before it."""
        return (
            self.input == other.input
            and self.norm == other.norm
            and self.last_row == other.last_row
            and self.matrix.is_float == other.matrix.is_float
            and self.matrix.stored_columns == other.matrix.stored_columns
            and other.output is not self.input.buffer
        )


@dataclass(eq=False)
class Attention(Operator):
    query: View
    key: View
    value: View
    start_pos: Node
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_context_len: int
    scale: float
    query_norm: HeadNorm | None
    key_norm: HeadNorm | None
    rotation: Rotation | None

    def reads(self) -> list[Buffer]:
        return [self.query.buffer, self.key.buffer, self.value.buffer]


@dataclass(eq=False)
class Add(Operator):
    """output += input."""

    input: View

    def reads(self) -> list[Buffer]:
        return [self.input.buffer, self.output]


@dataclass(eq=False)
class Swiglu(Operator):
    gate: View
    up: View

    def reads(self) -> list[Buffer]:
        return [self.gate.buffer, self.up.buffer]


@dataclass
class Fused:
    """All operators of one delegate call, in order.

    Attributes:
        operators: the list.
        views: where each value of the graph lies.
        impossible: additions whose operands are both needed later, which nothing here computes.
    """

    operators: list[Operator] = field(default_factory=list)
    views: dict[Node, View] = field(default_factory=dict)
    impossible: list[Node] = field(default_factory=list)
