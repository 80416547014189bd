"""The values of an op list, and which nodes of a graph compute such values."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from delegates.op_list.graph import shape_of


@dataclass(eq=False)
class Rows:
    """A value: rows of float32, one for each token of a call, or for the last token alone; of a
    program by sample, as many for each sample.

    Heads are side by side in a row. One op writes a value, others read it; slots are assigned
    later.

    Attributes:
        node: the node of the graph that computes it; None if several nodes compute it together.
        one_row: whether it is the last token's row only.
        height: rows of a sample; 0 where a row is a token's.
    """

    width: int
    node: Node | None = None
    one_row: bool = False
    height: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Its width and height: what makes a slot fit."""
        return self.width, self.height


def is_rows(node: Any) -> bool:
    """Whether a node computes rows: float32 (batch, width), (batch, seq_len, width) or heads of
    them, (batch, seq_len, heads, head_dim). Values.fits() knows which batches a program has."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return (
        isinstance(value, torch.Tensor)
        and value.dtype is torch.float32
        and value.dim() in (2, 3, 4)
        and all(isinstance(size, int) for size in value.shape[2:] or value.shape[1:])
    )


def is_heads(node: Node) -> bool:
    """Whether a node computes heads (1, seq_len, heads, head_dim)."""
    return is_rows(node) and len(shape_of(node)) == 4


def width_of(node: Node) -> int:
    """Columns of the rows that a node computes."""
    shape = shape_of(node)
    width: int = shape[-1] * shape[-2] if len(shape) == 4 else shape[-1]
    return width


def height_of(node: Node) -> int:
    """Rows of each sample that a node computes."""
    shape = shape_of(node)
    height: int = shape[1] if len(shape) > 2 else 1
    return height


def said_shape(node: Any) -> str:
    """Returns a node's shape for a message."""
    sizes = ", ".join(str(size) for size in shape_of(node)) if isinstance(node, Node) else "?"
    return f"({sizes})"
