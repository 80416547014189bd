"""Finds the units of an edge graph: each pattern starts from the node that a unit computes."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, Node

from delegates.cpu.graph import ATTENTION, Constants, args_of, operator_name, shape_of
from delegates.cpu.layout import GROUP_SIZES, MOST_COLUMNS, Format
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

_INT8 = (torch.int8, -128, 127)


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
    if name == "aten::mul":
        return _match_norm(node, constants) or _match_swiglu(node)
    if name == "aten::add":
        return _match_add(node)
    if name == "aten::embedding":
        return _match_float_embedding(node, constants)
    if name in ("aten::view_copy", "aten::slice_copy"):
        return match_attention(node, constants) or _match_embedding(node, constants)
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
    quantization = _match_quantization(activation)
    if quantization is None or operator_name(weight) != "torchao::dequantize_affine":
        return None
    columns = shape_of(quantization[0])[-1]
    quantized = _match_weight(weight, columns, constants)
    if quantized is None:
        return None
    prepare = quantization[1:]
    nodes = [*prepare, weight, node]
    return LinearUnit(node, nodes, quantization[0], quantized, bias, prepare)


def _match_quantization(dequantized: Node) -> list[Node] | None:
    """The float rows that were quantized to int8 per token, and the nodes that did it."""
    if operator_name(dequantized) != "torchao::dequantize_affine":
        return None
    quantized, block, scale, zero_point, *limits = args_of(dequantized)
    if tuple(limits) != _INT8 or operator_name(quantized) != "torchao::quantize_affine":
        return None
    rows = args_of(quantized)[0]
    if tuple(args_of(quantized)[1:]) != (block, scale, zero_point, *_INT8):
        return None
    choice = args_of(scale)[0]
    if operator_name(choice) != "torchao::choose_qparams_affine":
        return None
    if (args_of(scale)[1], args_of(zero_point)) != (0, (choice, 1)):
        return None
    expected = (rows, "ASYMMETRIC", block, *_INT8, None, None, torch.int8)
    if tuple(args_of(choice)) != expected or choice.kwargs or not is_rows(rows):
        return None
    if list(block) != [1] * (len(shape_of(rows)) - 1) + [shape_of(rows)[-1]]:
        return None
    nodes = [choice, scale, zero_point, quantized, dequantized]
    if operator_name(rows) == "aten::constant_pad_nd" and is_rows(args_of(rows)[0]):
        before, *others = args_of(rows)[1]
        if before == 0 and len(others) == 1 and others[0] >= 0 and not any(args_of(rows)[2:]):
            return [args_of(rows)[0], rows, *nodes]
    return [rows, *nodes]


def _match_weight(node: Node, columns: int, constants: Constants) -> WeightSource | None:
    values, block, scales, zero_points, dtype, *limits = args_of(node)
    if any(constants.name(item) is None for item in (values, scales)) or dtype is not torch.int8:
        return None
    if zero_points is not None and constants.name(zero_points) is None:
        return None
    rows, stored = shape_of(values)
    if stored > MOST_COLUMNS:
        return None
    if limits == [-8, 7] and block[0] == 1 and block[1] in GROUP_SIZES:
        format, group_size = Format.INT4, block[1]
    elif limits == [-128, 127] and list(block) == [1, stored]:
        format, group_size = Format.INT8, 0
    else:
        return None
    return WeightSource(values, scales, zero_points, format, rows, columns, group_size)


def _match_float_embedding(node: Node, constants: Constants) -> Unit | None:
    table, tokens = args_of(node)[:2]
    if constants.name(table) is None or not is_rows(node) or not _is_tokens(tokens):
        return None
    rows, columns = shape_of(table)
    source = WeightSource(table, None, None, Format.FLOAT32, rows, columns, 0)
    return EmbeddingUnit(node, [node], tokens, source)


def _match_embedding(node: Node, constants: Constants) -> Unit | None:
    """Gathered int8 rows times gathered scales, as quant.modules.QuantizedEmbedding traces."""
    if not is_rows(node):
        return None
    nodes, rows = [node], node
    if operator_name(rows) == "aten::slice_copy":
        if args_of(rows)[1] not in (-1, 2) or args_of(rows)[2] not in (0, None):
            return None
        rows = args_of(rows)[0]
        nodes.append(rows)
    chain = _chain(rows, ("aten::view_copy", "aten::mul"))
    if chain is None:
        return None
    product = chain[-1]
    values = _chain(args_of(product)[0], ("aten::_to_copy", "aten::view_copy", "aten::embedding"))
    scales = _chain(args_of(product)[1], ("aten::unsqueeze_copy", "aten::embedding"))
    if values is None or scales is None or args_of(values[-1])[1] is not args_of(scales[-1])[1]:
        return None
    table, tokens = args_of(values[-1])
    scale_table = args_of(scales[-1])[0]
    if None in (constants.name(table), constants.name(scale_table)) or not _is_tokens(tokens):
        return None
    count, stored = shape_of(table)
    groups = shape_of(scale_table)[1]
    columns = shape_of(node)[-1]
    if shape_of(product)[-2:] != (groups, stored // groups):
        return None
    group_size = stored // groups
    if group_size in GROUP_SIZES and (groups > 1 or _is_int4(constants, table, scale_table)):
        format = Format.INT4
    elif groups == 1:
        format, group_size = Format.INT8, 0
    else:
        return None
    source = WeightSource(table, scale_table, None, format, count, columns, group_size)
    covered = dict.fromkeys([*nodes, *chain, *values, *scales])
    return EmbeddingUnit(node, list(covered), tokens, source)


def _is_int4(constants: Constants, table: Node, scale_table: Node) -> bool:
    """Whether a table with one scale a row is one of 4 bits, as its output matrix then is too."""
    values, scales = constants.tensor(table), constants.tensor(scale_table)
    fits = bool(values.amin() >= -8) and bool(values.amax() <= 7)
    return fits and torch.equal(scales, scales.bfloat16().float())


def _chain(node: Any, names: Iterable[str]) -> list[Node] | None:
    """A node and the first inputs that lead to it, when they are these operators."""
    nodes: list[Node] = []
    for name in names:
        if not isinstance(node, Node) or operator_name(node) != name:
            return None
        nodes.append(node)
        node = args_of(node)[0] if args_of(node) else None
    return nodes


def _is_tokens(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype is torch.int64 and value.dim() == 2
