"""What the delegate knows how to compute, one operator of the model at a time, before fusion.

A unit covers some nodes of the edge graph and computes one of them, its `output`, from others, its
inputs. Inputs and outputs are rows of float32, one per token: shape (1, seq_len, width), or (1,
width) where only one token is left.
"""

from dataclasses import dataclass, field

from torch.fx import Node

from delegates.cpu.layout import Format


@dataclass(eq=False)
class Unit:
    """
    Attributes:
        output: the node that it computes.
        nodes: the nodes that it covers, the output among them.
    """

    output: Node
    nodes: list[Node]

    def inputs(self) -> list[Node]:
        """Rows that it reads."""
        return []


@dataclass(frozen=True)
class WeightSource:
    """The tensors of one matrix.

    Attributes:
        values: placeholder of int8 values or of the float32 matrix, (rows, columns or more).
        scales: placeholder of float32 (rows, groups); None for float32.
        zero_points: placeholder of zeros as many; or None.
        format: INT4 stands for both formats of 4 bits.
        columns: inputs, without padding.
    """

    values: Node
    scales: Node | None
    zero_points: Node | None
    format: Format
    rows: int
    columns: int
    group_size: int


@dataclass(eq=False)
class EmbeddingUnit(Unit):
    tokens: Node
    weight: WeightSource


@dataclass(eq=False)
class NormUnit(Unit):
    input: Node
    weight: Node
    eps: float

    def inputs(self) -> list[Node]:
        return [self.input]


@dataclass(eq=False)
class SelectUnit(Unit):
    """The last row."""

    input: Node

    def inputs(self) -> list[Node]:
        return [self.input]


@dataclass(eq=False)
class LinearUnit(Unit):
    """Its `prepare` nodes quantize the input."""

    input: Node
    weight: WeightSource
    bias: Node | None
    prepare: list[Node]

    def inputs(self) -> list[Node]:
        return [self.input]


@dataclass(eq=False)
class AddUnit(Unit):
    left: Node
    right: Node

    def inputs(self) -> list[Node]:
        return [self.left, self.right]


@dataclass(eq=False)
class SwigluUnit(Unit):
    gate: Node
    up: Node

    def inputs(self) -> list[Node]:
        return [self.gate, self.up]


@dataclass(frozen=True)
class HeadNorm:
    weight: Node
    eps: float


@dataclass(frozen=True)
class Rotation:
    """Placeholders of the tables (max_context_len, 1, head_dim)."""

    cosines: Node
    sines: Node


@dataclass(eq=False)
class AttentionUnit(Unit):
    """Its `prepare` nodes norm and rotate the heads."""

    query: Node
    key: Node
    value: Node
    start_pos: Node
    key_cache: Node
    value_cache: Node
    scale: float
    query_norm: HeadNorm | None
    key_norm: HeadNorm | None
    rotation: Rotation | None
    prepare: list[Node] = field(default_factory=list)

    def inputs(self) -> list[Node]:
        return [self.query, self.key, self.value]
