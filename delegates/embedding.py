"""The captured program's quantized embedding as a table in integers, for delegates that gather
from one and scale what they gathered themselves."""

from collections.abc import Collection
from typing import cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegates.plain import call_like

_LIMITS = {4: (-8, 7), 8: (-128, 127)}

_aten = torch.ops.aten


def share_embedding(
    program: ExportedProgram, widths: Collection[int], with_zero_points: bool = False
) -> int:
    """Reads an embedding of these widths from a dequantized table, in place; returns how many.

    As captured it gathers integers and scales and multiplies them. As a table, a delegate knows it
    for what a quantized linear has too, and keeps one of both where the head is tied to it.

    Args:
        widths: 4, 8 or both; a table of int8 whose values all fit 4 bits and that has groups
            counts as one of 4.
        with_zero_points: give the table zero points, all 0, for a delegate that reads them.
    """
    graph, count = program.graph, 0
    for gather in list(graph.find_nodes(op="call_function", target=_aten.embedding.default)):
        table, tokens = cast(tuple[Node, Node], gather.args)
        scaled = next(iter(gather.users))
        while scaled.target is not _aten.mul.Tensor and len(scaled.users) == 1:
            scaled = next(iter(scaled.users))
        if table.meta["val"].dtype is not torch.int8 or scaled.target is not _aten.mul.Tensor:
            continue
        scales = _gathered_scales(scaled, gather)
        values = program.state_dict[program.graph_signature.inputs_to_buffers[table.name]]
        bits = 4 if values.min() >= -8 and values.max() <= 7 else 8
        if bits not in widths:
            continue
        rows = next(iter(scaled.users))  # groups flattened back to rows
        block = [1, values.shape[1] // scales.meta["val"].shape[1]]
        zeros = _zero_points(program, scales) if with_zero_points else None
        with graph.inserting_before(rows):
            weight = call_like(
                rows,
                torch.ops.torchao.dequantize_affine.default,
                *(table, block, scales, zeros, torch.int8, *_LIMITS[bits]),
            )
            new = call_like(rows, _aten.embedding.default, weight, tokens)
        rows.replace_all_uses_with(new)
        count += 1
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return count


def _gathered_scales(scaled: Node, values: Node) -> Node:
    """The table that the other factor of `scaled` was gathered from."""
    node = cast(Node, scaled.args[1])
    while node.target is not _aten.embedding.default:
        node = cast(Node, node.args[0])
    return cast(Node, node.args[0])


def _zero_points(program: ExportedProgram, scales: Node) -> Node:
    """A new buffer of int8 zeros of the shape of the scales."""
    from executorch.backends.transforms.utils import create_constant_placeholder

    zeros = torch.zeros(scales.meta["val"].shape, dtype=torch.int8)
    with program.graph.inserting_before(scales):
        return create_constant_placeholder(
            program,
            program.graph,
            f"{scales.name}_zero_points",
            InputKind.BUFFER,
            zeros,
            persistent_buffer=True,
        )
