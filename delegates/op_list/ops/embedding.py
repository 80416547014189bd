"""Rows of a matrix by token."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from delegates.op_list.graph import args_of, shape_of
from delegates.op_list.layout import Format
from delegates.op_list.matrix import Matrix, MatrixSource
from delegates.op_list.ops.linear import rotation_refused
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.ops.storage import quantized_source
from delegates.op_list.refused import Refused
from delegates.op_list.rows import is_rows, said_shape


@dataclass(eq=False, kw_only=True)
class Embedding(Op):
    """
    Attributes:
        rotated: size of the blocks in which the matrix's rows are rotated, and are rotated back; 0:
            they are not.
    """

    MATRICES: ClassVar = {"matrix": ""}
    BY_SAMPLE: ClassVar = True

    tokens: Node
    matrix: Matrix
    rotated: int = 0

    @property
    def version(self) -> int:
        return 14 if self.rotated else self.VERSION

    def fields(self, places: Places) -> list[Field]:
        return [places.weight(self.matrix), places.slot(self.output), self.rotated]


def match_float(node: Node, values: Values) -> Embedding | Refused:
    table, tokens = args_of(node)[:2]
    rows, columns = shape_of(table)
    source = MatrixSource(table, None, Format.FLOAT32, rows, columns, 0)
    return _embedding(node, tokens, source, values)


def match_quantized(node: Node, values: Values) -> Embedding | Refused:
    tokens, table, scales, columns, bits, group_size, levels, *rest = args_of(node)
    rotated = rest[0] if rest else 0
    turned = rotation_refused(columns, rotated)
    if turned is not None:
        return turned
    source = quantized_source(table, scales, columns, bits, group_size, levels)
    if isinstance(source, Refused):
        return source
    op = _embedding(node, tokens, source, values)
    if isinstance(op, Embedding):
        op.rotated = rotated
    return op


def _embedding(
    node: Node, tokens: Any, source: MatrixSource, values: Values
) -> Embedding | Refused:
    if any(values.constants.name(tensor) is None for tensor in Matrix((source,)).tensors()):
        return Refused("its table is computed, not a constant")
    if not is_rows(node) or not _is_tokens(tokens):
        return Refused(f"of {said_shape(tokens)}; it takes tokens of int64, (1, seq_len)")
    return Embedding(
        output=values.rows(node), nodes=[node], tokens=tokens, matrix=Matrix((source,))
    )


def _is_tokens(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype is torch.int64 and value.dim() == 2


MATCHERS: Matchers = {
    "aten::embedding": (match_float,),
    "thimble::embedding": (match_quantized,),
}
