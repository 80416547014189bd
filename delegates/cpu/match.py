"""Finds the units of an edge graph: each pattern starts from the node that a unit computes."""

from typing import Any

import torch
from torch.fx import Graph, Node

from delegates.cpu.graph import ATTENTION, Constants, args_of, operator_name, shape_of
from delegates.cpu.layout import MOST_COLUMNS, Format
from delegates.cpu.match_attention import match_attention
from delegates.cpu.match_norm import match_norm
from delegates.cpu.units import (
    AddUnit,
    EmbeddingUnit,
    LinearUnit,
    NormUnit,
    SelectUnit,
    SwigluUnit,
    Unit,
    WeightSource,
)


def find_units(graph: Graph, constants: Constants) -> list[Unit]:
    """The units of a graph in its order; no two cover one node, and what a unit computes on its
    way to its output nobody else reads."""
    found: list[Unit] = []
    covered: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in covered:
            continue
        unit = _match(node, constants)
        if unit is not None and _is_closed(unit) and covered.isdisjoint(unit.nodes):
            found.append(unit)
            covered.update(unit.nodes)
    return found[::-1]


def _is_closed(unit: Unit) -> bool:
    inside = set(unit.nodes)
    return all(
        user in inside or (user.op == "output" and _is_mutation(node))
        for node in unit.nodes
        if node is not unit.output
        for user in node.users
    )


def _is_mutation(node: Node) -> bool:
    """A cache as an attention leaves it."""
    if operator_name(node) != "getitem":
        return False
    return operator_name(node.all_input_nodes[0]) == ATTENTION and args_of(node)[1] != 0


def _match(node: Node, constants: Constants) -> Unit | None:
    name = operator_name(node)
    if name == "aten::linear":
        return _match_linear(node, constants)
    if name == "thimble::linear":
        return _match_quantized_linear(node, constants)
    if name == "thimble::embedding":
        return _match_embedding(node, constants)
    if name == "aten::mul":
        return _match_norm(node, constants) or _match_swiglu(node)
    if name == "aten::add":
        return _match_add(node)
    if name == "aten::embedding":
        return _match_float_embedding(node, constants)
    if name in ("aten::view_copy", "aten::slice_copy"):
        return match_attention(node, constants)
    if name == "getitem":
        return match_attention(node, constants)
    if name == "aten::select_copy":
        return _match_select(node)
    return None


def is_rows(node: Node) -> bool:
    """Whether a node computes rows: float32, (1, seq_len, width) or (1, width)."""
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and value.dtype is torch.float32
        and value.dim() in (2, 3)
        and isinstance(value.shape[0], int)
        and value.shape[0] == 1
        and isinstance(value.shape[-1], int)
    )


def _match_norm(node: Node, constants: Constants) -> Unit | None:
    match = match_norm(node, constants)
    if match is None or not is_rows(node):
        return None
    return NormUnit(node, match.nodes, match.input, match.weight, match.eps)


def _match_swiglu(node: Node) -> Unit | None:
    if len(node.all_input_nodes) != 2 or not all(map(is_rows, node.all_input_nodes)):
        return None
    for silu, up in (args_of(node), args_of(node)[::-1]):
        if operator_name(silu) == "aten::silu" and shape_of(silu) == shape_of(up):
            return SwigluUnit(node, [silu, node], args_of(silu)[0], up)
    return None


def _match_add(node: Node) -> Unit | None:
    left, right = args_of(node)[:2]
    if not (isinstance(left, Node) and isinstance(right, Node)) or node.kwargs or left is right:
        return None
    if not (is_rows(left) and is_rows(right) and shape_of(left) == shape_of(right)):
        return None
    return AddUnit(node, [node], left, right)


def _match_select(node: Node) -> Unit | None:
    """The last of several rows."""
    rows, dim, index = args_of(node)
    if not is_rows(rows) or len(shape_of(rows)) != 3 or (dim, index) != (1, -1):
        return None
    return SelectUnit(node, [node], rows)


def _match_linear(node: Node, constants: Constants) -> Unit | None:
    activation, weight = args_of(node)[:2]
    bias = args_of(node)[2] if len(args_of(node)) > 2 else None
    if bias is not None and constants.name(bias) is None or not is_rows(node):
        return None
    if constants.name(weight) is not None:
        if not is_rows(activation):
            return None
        rows, columns = shape_of(weight)
        source = WeightSource(weight, None, None, Format.FLOAT32, rows, columns, 0)
        return LinearUnit(node, [node], activation, source, bias, [])
    return None


def _match_quantized_linear(node: Node, constants: Constants) -> Unit | None:
    rows, values, scales, bias, bits, group_size, levels = args_of(node)
    if bias is not None and constants.name(bias) is None or not (is_rows(node) and is_rows(rows)):
        return None
    source = _weight_source(values, scales, shape_of(rows)[-1], bits, group_size, levels, constants)
    if source is None or shape_of(values)[1] > MOST_COLUMNS:
        return None
    return LinearUnit(node, [node], rows, source, bias, [])


def _weight_source(
    values: Node,
    scales: Node,
    columns: int,
    bits: int,
    group_size: int,
    levels: int,
    constants: Constants,
) -> WeightSource | None:
    if any(constants.name(item) is None for item in (values, scales)):
        return None
    format = Format.INT8 if bits == 8 else Format.INT4_TWO_LEVEL if levels == 2 else Format.INT4
    return WeightSource(values, scales, None, format, shape_of(values)[0], columns, group_size)


def _match_float_embedding(node: Node, constants: Constants) -> Unit | None:
    table, tokens = args_of(node)[:2]
    if constants.name(table) is None or not is_rows(node) or not _is_tokens(tokens):
        return None
    rows, columns = shape_of(table)
    source = WeightSource(table, None, None, Format.FLOAT32, rows, columns, 0)
    return EmbeddingUnit(node, [node], tokens, source)


def _match_embedding(node: Node, constants: Constants) -> Unit | None:
    tokens, values, scales, columns, bits, group_size, levels = args_of(node)
    source = _weight_source(values, scales, columns, bits, group_size, levels, constants)
    if source is None or not is_rows(node) or not _is_tokens(tokens):
        return None
    return EmbeddingUnit(node, [node], tokens, source)


def _is_tokens(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype is torch.int64 and value.dim() == 2
