"""What all kinds of op have in common.

An op covers some nodes of a graph and computes one of them, its output, from other rows. Each kind
of op has one file with its fields, their form in delegates/op_list/program.fbs, and the matchers
that find it in a graph.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Protocol

from torch import Tensor
from torch.fx import Node

from delegates.op_list.graph import Constants, shape_of
from delegates.op_list.low_rank import LowRank, Pair
from delegates.op_list.matrix import Matrix
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, height_of, width_of


@dataclass(frozen=True)
class Floats:
    """A part of the blob of floats: where it starts, and how many numbers it has."""

    offset: int
    length: int


@dataclass(frozen=True)
class Side:
    """How a window moves along one side of a picture: the schema's table of that name.

    Attributes:
        size: of the picture.
        kernel: numbers that the window sees, `dilation` apart.
        padding: zeros before the picture's first number.
        output: windows.
        behind: zeros behind the picture's last number.
    """

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    output: int
    behind: int = 0


@dataclass(frozen=True)
class Indices:
    """A vector of uint: int32, whose -1 is the largest there."""

    numbers: Tensor


# A field of a table in the schema: a uint, a bool, an enum, a float, one table or several; None if
# there is none.
Field = int | bool | IntEnum | float | Floats | Side | Indices | Sequence[LowRank] | None


@dataclass(frozen=True)
class Cache:
    """Keys and values of one attention.

    Attributes:
        rows: how many positions it keeps, as a ring; 0: all.
        keys: the name of the buffer of its keys.
    """

    name: str
    num_key_value_heads: int
    head_dim: int
    max_context_len: int
    rows: int
    keys: str = ""


@dataclass(frozen=True)
class State:
    """What a recurrent op keeps of the positions before its next row.

    Attributes:
        rows: how many of the last positions.
        width: numbers of a row.
    """

    name: str
    rows: int
    width: int


class ReadsCache(Protocol):
    """An op that reads the cache of an earlier one."""

    @property
    def keys(self) -> str:
        """The name of the buffer of the cache's keys."""

    @property
    def node(self) -> Node: ...


class Places(Protocol):
    """Where an op's operands are in the program."""

    def slot(self, rows: Rows) -> int: ...
    def weight(self, matrix: Matrix) -> int: ...
    def cache(self, cache: Cache) -> int: ...
    def cache_of(self, op: "ReadsCache") -> int: ...
    def state(self, state: State) -> int: ...
    def vector(self, node: Node) -> Floats: ...
    def ones(self, length: int) -> Floats: ...
    def taps(self, node: Node) -> Floats: ...
    def half_table(self, node: Node) -> Floats: ...
    def biases(self, matrix: Matrix, biases: Sequence[Node | None]) -> Floats | None: ...
    def low_rank(self, matrix: Matrix, pairs: Sequence[Sequence[Pair]]) -> Sequence[LowRank]: ...


@dataclass(eq=False, kw_only=True)
class Op:
    """
    Attributes:
        output: the value that it computes.
        nodes: the nodes that it covers, without those of its preparation.
        prepare_nodes: the nodes that its preparation covers.
        name: its module path.
    """

    READS: ClassVar[tuple[str, ...]] = ()  # the fields that hold the rows it reads
    IN_PLACE: ClassVar[tuple[str, ...]] = ()  # those of them that its output may overwrite
    ONE_ROW: ClassVar[bool] = False  # whether it computes one row of many
    VERSION: ClassVar[int] = 6  # of the first program that had it
    BY_TOKEN: ClassVar[bool] = True  # whether it runs where a row is a token's
    BY_SAMPLE: ClassVar[bool] = False  # whether it runs where samples have rows
    # The fields that hold its matrices, and what the name of each adds to the op's.
    MATRICES: ClassVar[Mapping[str, str]] = {}

    output: Rows
    nodes: list[Node]
    prepare_nodes: list[Node] = field(default_factory=list)
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or _module_path(self.nodes)

    def matrices(self) -> list[Matrix]:
        return [getattr(self, field) for field in self.MATRICES]

    def reads(self) -> list[Rows]:
        return [rows for field in self.READS if (rows := getattr(self, field)) is not None]

    def fields(self, places: Places) -> list[Field]:
        """Returns the fields of its table in the schema, in that order."""
        raise NotImplementedError

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Takes over nodes that only reshape its input."""
        self.nodes = [*nodes, *self.nodes]

    @property
    def version(self) -> int:
        """Of the first program that had it."""
        return self.VERSION

    @property
    def label(self) -> str:
        """Its name in a message."""
        return type(self).__name__.lower()

    @property
    def node(self) -> Node:
        """The node whose value it computed when it was matched."""
        assert self.output.node is not None
        return self.output.node


class Values:
    """What matchers see of a graph besides its nodes.

    Args:
        constants: the tensors behind the graph's placeholders.
        by_sample: whether its values are samples of fixed shapes, (batch, ...); else those of one
            sequence, (1, seq_len, ...).
    """

    def __init__(self, constants: Constants, by_sample: bool = False) -> None:
        self.constants = constants
        self.by_sample = by_sample
        self._rows: dict[Node, Rows] = {}
        self._turning: dict[tuple[Node, Node], bool] = {}

    def rows(self, node: Node) -> Rows:
        """Returns the rows that a node computes, the same object each time."""
        if node not in self._rows:
            height = height_of(node) if self.by_sample else 0
            self._rows[node] = Rows(width_of(node), node, height=height)
        return self._rows[node]

    def fits(self, op: "Op") -> bool:
        """Whether an op can be of this graph: whether its kind can, and whether all its rows are of
        one sequence, or of as many samples, with a number at least."""
        if not (op.BY_SAMPLE if self.by_sample else op.BY_TOKEN):
            return False
        nodes = [rows.node for rows in (*op.reads(), op.output) if rows.node is not None]
        if any(self.constants.name(node) is not None for node in nodes):
            return False
        if any(0 in shape_of(node) for node in nodes):
            return False
        if not self.by_sample:
            return all(shape_of(node)[0] == 1 for node in nodes)
        batches = {str(shape_of(node)[0]) for node in nodes}
        heights = all(isinstance(height_of(node), int) for node in nodes)
        return len(batches) == 1 and heights

    def are_rotary(self, cosines: Node, sines: Node) -> bool:
        """Whether both halves of tables (any, 1, head_dim) are equal, the sines' first negated."""
        key = cosines, sines
        if key not in self._turning:
            first, second = self.constants.tensor(cosines).chunk(2, dim=-1)
            minus, plus = self.constants.tensor(sines).chunk(2, dim=-1)
            self._turning[key] = first.equal(second) and (-minus).equal(plus)
        return self._turning[key]


# Returns the op whose output is the node; why there is none; or None if nothing resembles it.
Matcher = Callable[[Node, Values], Op | Refused | None]
# By the operator of that node, the widest pattern first.
Matchers = Mapping[str, Sequence[Matcher]]


def _module_path(nodes: Sequence[Node]) -> str:
    """Returns the path of the module that computed the last node, such as model.layers.0.mlp."""
    for node in reversed(nodes):
        stack = node.meta.get("nn_module_stack") or {}
        paths = [path for path, _ in stack.values()]
        if paths and paths[-1] and shape_of(node):
            return str(paths[-1])
    return nodes[-1].name
