"""Rotary positions: each head of a row turned by the angles of its position."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from delegates.op_list.graph import ROTARY_ROWS, args_of, operator_name, shape_of
from delegates.op_list.ops.op import Field, Floats, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_heads, said_shape


@dataclass(frozen=True)
class Rotation:
    """
    Attributes:
        cosines, sines: placeholders of the tables (max_context_len, 1, head_dim).
        original: the longest text that uses the first rows, as many; those for longer texts follow,
            max_context_len rows. 0: tables are for texts of all lengths.
    """

    cosines: Node
    sines: Node
    original: int = 0

    @property
    def positions(self) -> int:
        length: int = shape_of(self.cosines)[0]
        return length - self.original

    def place(self, places: Places) -> tuple[Floats, Floats]:
        return places.half_table(self.cosines), places.half_table(self.sines)


@dataclass(eq=False, kw_only=True)
class Rotate(Op):
    """
    Attributes:
        start_pos: of the call; None: positions count from the start of each text.
    """

    READS: ClassVar = ("input",)
    BY_SAMPLE: ClassVar = True
    IN_PLACE: ClassVar = ("input",)

    input: Rows
    start_pos: Node | None
    num_heads: int
    rotation: Rotation

    @property
    def version(self) -> int:
        return 11 if self.output.height else self.VERSION

    def fields(self, places: Places) -> list[Field]:
        slots = places.slot(self.input), places.slot(self.output)
        return [*slots, self.num_heads, *self.rotation.place(places)]


def match_rotate(node: Node, values: Values) -> Rotate | None:
    """x * cosines + (second half of x, first half) * sines."""
    cosine_part, sine_part = args_of(node)[:2]
    if (
        values.by_sample
        or node.kwargs
        or not is_heads(node)
        or not _are(cosine_part, sine_part, name="aten::mul")
    ):
        return None
    x, cosines = args_of(cosine_part)
    swapped, sines = args_of(sine_part)
    if not _are(swapped, name="aten::cat"):
        return None
    halves = _swapped_halves(swapped, x)
    tables = [_match_table(item, values) for item in (cosines, sines)]
    cosine, sine = tables
    if halves is None or cosine is None or sine is None:
        return None
    if (sine.start_pos, sine.original) != (cosine.start_pos, cosine.original):
        return None
    rotation = Rotation(cosine.table, sine.table, cosine.original)
    if not values.are_rotary(rotation.cosines, rotation.sines):
        return None
    slices = [*cosine.nodes, *sine.nodes]
    return Rotate(
        output=values.rows(node),
        nodes=[*slices, *halves, cosine_part, swapped, sine_part, node],
        input=values.rows(x),
        start_pos=cosine.start_pos,
        num_heads=shape_of(node)[2],
        rotation=rotation,
    )


def match_text_rotate(node: Node, values: Values) -> Rotate | Refused:
    """The heads of a text, by the first rows of the tables."""
    x, cosines, sines = args_of(node)
    if not is_heads(x):
        return Refused(f"of {said_shape(x)}; it takes heads (1, seq_len, heads, head_dim)")
    if any(values.constants.name(table) is None for table in (cosines, sines)):
        return Refused("its tables are computed, not constants")
    if not values.are_rotary(cosines, sines):
        return Refused("its tables do not rotate the halves of a head with each other")
    return Rotate(
        output=values.rows(node),
        nodes=[node],
        input=values.rows(x),
        start_pos=None,
        num_heads=shape_of(node)[2],
        rotation=Rotation(cosines, sines),
    )


def _are(*nodes: Any, name: str) -> bool:
    return all(isinstance(node, Node) and operator_name(node) == name for node in nodes)


def _swapped_halves(swapped: Node, x: Node) -> list[Node] | None:
    """Returns the nodes that split x (..., head_dim), if `swapped` joins its second half and its
    first."""
    parts, *dim = args_of(swapped)
    last, half = len(shape_of(x)) - 1, shape_of(x)[-1] // 2
    if len(parts) != 2 or dim not in ([-1], [last]) or not _are(*parts, name="getitem"):
        return None
    second, first = parts
    halves = args_of(second)[0]
    if (args_of(first), args_of(second)) != ((halves, 0), (halves, 1)):
        return None
    cut = operator_name(halves), args_of(halves)[:2]
    if cut not in (("aten::split_with_sizes", (x, [half, half])), ("aten::split", (x, half))):
        return None
    return [halves, first, second] if args_of(halves)[2:] in ((-1,), (last,)) else None


@dataclass(frozen=True)
class _TableRows:
    """
    Attributes:
        table: the placeholder of which rows from a position on are read.
        original: as that of Rotation.
        nodes: which only serve this.
    """

    table: Node
    start_pos: Node
    original: int
    nodes: list[Node]


def _match_table(node: Any, values: Values) -> _TableRows | None:
    if _are(node, name=ROTARY_ROWS):
        table, start_pos, length, original = args_of(node)
        lengths = [length] if isinstance(length, Node) else []
        rows = _TableRows(table, start_pos, original, [node, *lengths])
    elif _are(node, name="aten::slice"):
        table, dim, start_pos, end = (*args_of(node), None)[:4]
        if dim != 0 or not _are(end, name="add"):
            return None
        lengths = [item for item in end.all_input_nodes if item is not start_pos]
        rows = _TableRows(table, start_pos, 0, [node, end, *lengths])
    else:
        return None
    if not isinstance(start_pos, Node) or values.constants.name(table) is None:
        return None
    if len(shape_of(table)) != 3 or shape_of(table)[1] != 1:
        return None
    return rows if values.constants.tensor(table).dtype is torch.float32 else None


MATCHERS: Matchers = {"aten::add": (match_rotate,), "thimble::rotate": (match_text_rotate,)}
