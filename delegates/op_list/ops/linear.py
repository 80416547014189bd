"""A linear layer, with what it may take in of the ops around it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.layout import Format
from delegates.op_list.low_rank import Pair
from delegates.op_list.matrix import Matrix, MatrixSource
from delegates.op_list.ops.elementwise import Function
from delegates.op_list.ops.norm import NormWeight
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Side, Values
from delegates.op_list.ops.storage import quantized_source
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_rows, said_shape

ROTATED = (16, 32, 64)  # columns of a block


@dataclass(eq=False, kw_only=True)
class Linear(Op):
    """
    Attributes:
        biases: of each source of the matrix.
        residual: rows that it adds its own to, in their place.
        norm: of its input first.
        activation: of the first source of the matrix, which gates the second; or of its output,
            where nothing is gated. None: there is none.
        last_row: it computes the last row alone.
        prepared: its input was normed and quantized by the linear before.
        pairs: of adapters, for each source of the matrix; of that order.
        rotated: size of the blocks in which its normed input is rotated before it is quantized; 0:
            it is not.
        sides: vertical and horizontal, of the windows over its input that it multiplies; None: it
            multiplies each row.
    """

    READS: ClassVar = ("input", "residual")
    BY_SAMPLE: ClassVar = True
    MATRICES: ClassVar = {"matrix": ""}

    input: Rows
    matrix: Matrix
    biases: tuple[Node | None, ...]
    residual: Rows | None = None
    norm: NormWeight | None = None
    activation: Function | None = None
    last_row: bool = False
    prepared: bool = False
    pairs: tuple[tuple[Pair, ...], ...] = ((),)
    rotated: int = 0
    sides: tuple[Side, Side] | None = None

    def fields(self, places: Places) -> list[Field]:
        return [
            places.slot(self.input),
            places.slot(self.output),
            places.weight(self.matrix),
            places.biases(self.matrix, self.biases),
            self.norm.place(places) if self.norm else None,
            self.norm.eps if self.norm else 0.0,
            self.gated,
            self.activation,
            self.residual is not None,
            self.last_row,
            self.prepared,
            places.low_rank(self.matrix, self.pairs),
            self.rotated,
            *(self.sides or ()),
        ]

    @property
    def gated(self) -> bool:
        """Whether blocks of its matrix alternate: gate, up."""
        return self.matrix.interleaved

    @property
    def version(self) -> int:
        if self.sides is not None:
            return 15
        if self.activation is None or self.gated:
            return self.VERSION
        return max(8, self.activation.version)

    @property
    def prepares(self) -> bool:
        """Whether it norms, quantizes or multiplies by an adapter before it multiplies."""
        return self.norm is not None or not self.matrix.is_float or any(self.pairs)

    def reads_like(self, other: "Linear") -> bool:
        """Whether it reads the same rows in the same way."""
        mine = self.input, self.norm, self.last_row, self.rotated
        return mine == (other.input, other.norm, other.last_row, other.rotated)

    def is_prepared_by(self, other: "Linear") -> bool:
        """Whether it quantizes what the other did, just before it."""
        return (
            self.reads_like(other)
            and self.matrix.is_float == other.matrix.is_float
            and self.matrix.stored_columns == other.matrix.stored_columns
            and self.matrix.input_group == other.matrix.input_group
        )


def match_float(node: Node, values: Values) -> Linear | Refused:
    x, weight, *bias = args_of(node)
    if values.constants.name(weight) is None:
        return Refused("its weight is computed, not a constant")
    rows, columns = shape_of(weight)
    source = MatrixSource(weight, None, Format.FLOAT32, rows, columns, 0)
    return _linear(node, x, source, bias[0] if bias else None, values)


def match_quantized(node: Node, values: Values) -> Linear | Refused:
    """The linear; quantizing its input is preparation, of the same node."""
    x, weight, scales, bias, bits, group_size, levels, *rest = args_of(node)
    rotated = rest[0] if rest else 0
    columns = shape_of(x)[-1]
    turned = rotation_refused(columns, rotated)
    if turned is not None:
        return turned
    if any(values.constants.name(tensor) is None for tensor in (weight, scales)):
        return Refused("its weight is computed, not a constant")
    source = quantized_source(weight, scales, columns, bits, group_size, levels)
    if isinstance(source, Refused):
        return source
    linear = _linear(node, x, source, bias, values)
    if isinstance(linear, Linear):
        linear.rotated = rotated
    return linear


def rotation_refused(columns: int, rotated: int) -> Refused | None:
    """Returns why columns cannot be rotated so; None if they can."""
    if not rotated or rotated in ROTATED and columns % rotated == 0:
        return None
    return Refused(
        f"it rotates {columns} columns in blocks of {rotated}; it takes blocks of 16, 32 or 64 "
        "that divide them"
    )


def _linear(
    node: Node, x: Node, source: MatrixSource, bias: Any, values: Values
) -> Linear | Refused:
    if bias is not None and values.constants.name(bias) is None:
        return Refused("its bias is computed, not a constant")
    if not is_rows(x) or not is_rows(node) or len(shape_of(node)) == 4:
        shapes = f"of {said_shape(x)} to {said_shape(node)}"
        return Refused(f"{shapes}; it takes rows of float32, (1, seq_len, width)")
    return Linear(
        output=values.rows(node),
        nodes=[node],
        prepare_nodes=[] if source.format is Format.FLOAT32 else [node],
        input=values.rows(x),
        matrix=Matrix((source,)),
        biases=(bias,),
    )


MATCHERS: Matchers = {"aten::linear": (match_float,), "thimble::linear": (match_quantized,)}
