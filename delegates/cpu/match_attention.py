"""The pattern of attention: heads normed and rotated, the cached attention, heads side by side."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from delegates.cpu.graph import ATTENTION, Constants, args_of, kwargs_of, operator_name, shape_of
from delegates.cpu.match_norm import match_norm
from delegates.cpu.units import AttentionUnit, HeadNorm, Rotation


@dataclass(frozen=True)
class _Heads:
    """How the heads (1, seq_len, heads, head_dim) came from rows."""

    rows: Node
    norm: HeadNorm | None
    rotation: Rotation | None
    nodes: list[Node]


def match_attention(node: Node, constants: Constants) -> AttentionUnit | None:
    """The attention whose output a node is: its heads, or their view as rows."""
    heads = node
    if operator_name(node) == "aten::view_copy":
        heads = args_of(node)[0]
        if not isinstance(shape_of(node)[-1], int) or len(shape_of(node)) != 3:
            return None
    elif [operator_name(user) for user in node.users] == ["aten::view_copy"]:
        return None  # found from its view
    if operator_name(heads) != "getitem" or args_of(heads)[1] != 0:
        return None
    attention = args_of(heads)[0]
    if operator_name(attention) != ATTENTION:
        return None
    given = kwargs_of(attention)
    caches = given["_all_bases"]
    key_cache = caches[given["_key_cache_base_index"]]
    value_cache = caches[given["_value_cache_base_index"]]
    start_pos = given["start_pos"]
    if None in (constants.buffer_name(key_cache), constants.buffer_name(value_cache)):
        return None
    if shape_of(key_cache) != shape_of(value_cache) or key_cache is value_cache:
        return None
    query = _match_heads(given["query"], start_pos, constants)
    key = _match_heads(given["key"], start_pos, constants)
    if query.rotation != key.rotation:  # one rotation, of both, or none
        query, key = _Heads(given["query"], None, None, []), _Heads(given["key"], None, None, [])
    if query.norm and key.norm and query.norm.eps != key.norm.eps:
        return None
    value = _match_view(given["value"]) or _Heads(given["value"], None, None, [])
    prepare = list(dict.fromkeys([*query.nodes, *key.nodes, *value.nodes]))
    items = list(attention.users)
    output = node if node is not heads else heads
    nodes = list(dict.fromkeys([*prepare, attention, *items, heads, output]))
    return AttentionUnit(
        output,
        nodes,
        query.rows,
        key.rows,
        value.rows,
        start_pos,
        key_cache,
        value_cache,
        given["scale"],
        query.norm,
        key.norm,
        query.rotation,
        prepare,
    )


def _match_heads(heads: Node, start_pos: Any, constants: Constants) -> _Heads:
    """As much of rotation, norm and view as leads from rows to heads; else the heads as rows."""
    nodes: list[Node] = []
    rotation, norm, at = None, None, heads
    rotated = _match_rotation(at, start_pos, constants)
    if rotated is not None:
        at, rotation, covered = rotated
        nodes += covered
    normed = match_norm(at, constants)
    if normed is not None:
        at, norm = normed.input, HeadNorm(normed.weight, normed.eps)
        nodes += normed.nodes
    view = _match_view(at)
    if view is not None:
        return _Heads(view.rows, norm, rotation, [*view.nodes, *nodes])
    return _Heads(at, norm, rotation, nodes)


def _match_view(heads: Node) -> _Heads | None:
    if operator_name(heads) != "aten::view_copy" or len(shape_of(args_of(heads)[0])) != 3:
        return None
    return _Heads(args_of(heads)[0], None, None, [heads])


def _match_rotation(
    node: Node, start_pos: Any, constants: Constants
) -> tuple[Node, Rotation, list[Node]] | None:
    """x * cosines + (second half of x, first half) * sines: x, the tables, the nodes."""
    if operator_name(node) != "aten::add" or node.kwargs:
        return None
    plain, crossed = args_of(node)[:2]
    if operator_name(plain) != "aten::mul" or operator_name(crossed) != "aten::mul":
        return None
    x, cosines = args_of(plain)
    swapped, sines = args_of(crossed)
    if operator_name(swapped) != "aten::cat" or args_of(swapped)[1:] != (-1,):
        return None
    second, first = args_of(swapped)[0]
    halves = args_of(second)[0]
    half = shape_of(node)[-1] // 2
    if operator_name(halves) != "aten::split_with_sizes_copy":
        return None
    if args_of(halves) != (x, [half, half], -1) or (args_of(first), args_of(second)) != (
        (halves, 0),
        (halves, 1),
    ):
        return None
    tables = [_match_table(item, start_pos, constants) for item in (cosines, sines)]
    if tables[0] is None or tables[1] is None:
        return None
    rotation = Rotation(tables[0][0], tables[1][0])
    if not _turns_halves(constants.tensor(rotation.cosines), constants.tensor(rotation.sines)):
        return None
    slices = [*tables[0][1], *tables[1][1]]
    return x, rotation, [*slices, halves, first, second, plain, swapped, crossed, node]


def _match_table(node: Any, start_pos: Any, constants: Constants) -> tuple[Node, list[Node]] | None:
    """The table whose rows from start_pos on a node reads, and the nodes that are only its own."""
    if operator_name(node) != "aten::slice_copy" or args_of(node)[1:3] != (0, start_pos):
        return None
    table, end = args_of(node)[0], args_of(node)[3]
    if constants.name(table) is None or len(shape_of(table)) != 3 or shape_of(table)[1] != 1:
        return None
    if not isinstance(end, Node) or operator_name(end) != "add":
        return None
    return table, [node, end, *(item for item in end.all_input_nodes if item is not start_pos)]


def _turns_halves(cosines: Tensor, sines: Tensor) -> bool:
    """Whether each pair of tables (any, 1, head_dim) holds its half twice, the sines signed."""
    if cosines.dtype is not torch.float32 or sines.dtype is not torch.float32:
        return False
    first, second = cosines.chunk(2, dim=-1)
    minus, plus = sines.chunk(2, dim=-1)
    return torch.equal(first, second) and torch.equal(-minus, plus)
