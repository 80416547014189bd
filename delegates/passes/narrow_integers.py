"""The first pass: the captured program becomes one of fixed shapes in TOSA's float profile.

That profile computes in float32 and gathers by int32, and has no slice from a position that is only
known at run time. So positions are compared as floats (exact to 2^24), and a row is written to the
cache by choosing, for every position, between the row and the old content.
"""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.attention import MASKED, Positions
from delegates.passes.graph import call_like

_aten = torch.ops.aten


def narrow_integers(program: ExportedProgram) -> Positions:
    """Takes tokens and position as int32, in place; the program takes one token per call."""
    graph = program.graph
    (start,) = graph.find_nodes(op="call_function", target=_aten.item.default)
    inputs = program.graph_signature.user_inputs
    narrow = []
    for node in graph.find_nodes(op="placeholder"):
        if node.name in inputs:
            users = list(node.users)
            with graph.inserting_before(start):
                narrow.append(call_like(start, _aten.to.dtype, node, torch.int32))
            for user in users:
                if user is not start:
                    user.replace_input_with(node, narrow[-1])
    return Positions(start, 1, narrow[1])


def _distances(node: Node, positions: Positions, context: int) -> Node:
    """float (context,): how far each position of the cache is after this call's token."""
    columns = call_like(node, _aten.arange.default, context)
    columns = call_like(node, _aten.to.dtype, columns, torch.float32)
    here = call_like(node, _aten.to.dtype, positions.each, torch.float32)
    return call_like(node, _aten.sub.Tensor, columns, here)


def mask_by_distance(node: Node, positions: Positions, context: int, window: int | None) -> Node:
    """The causal mask (1, context): positions after the token are masked, and those before its
    window."""
    distances = _distances(node, positions, context)
    steps = call_like(node, _aten.clamp.default, distances, 0.0, 1.0)
    if window is not None:
        back = call_like(node, _aten.neg.default, distances)
        beyond = call_like(node, _aten.sub.Tensor, back, float(window - 1))
        before = call_like(node, _aten.clamp.default, beyond, 0.0, 1.0)
        steps = call_like(node, _aten.add.Tensor, steps, before)
    masked = call_like(node, _aten.mul.Tensor, steps, MASKED)
    return call_like(node, _aten.unsqueeze.default, masked, 0)


def write_by_choice(node: Node, positions: Positions, cache: Node, rows: Node) -> Node:
    """The cache with the row at its position: row * here + cache * (1 - here), `here` 0 or 1."""
    distances = _distances(node, positions, cache.meta["val"].shape[2])
    away = call_like(node, _aten.clamp.default, call_like(node, _aten.abs.default, distances), 0, 1)
    column = call_like(node, _aten.unsqueeze.default, away, 1)
    kept = call_like(node, _aten.mul.Tensor, cache, column)
    here = call_like(node, _aten.add.Tensor, call_like(node, _aten.neg.default, column), 1.0)
    return call_like(node, _aten.add.Tensor, kept, call_like(node, _aten.mul.Tensor, rows, here))
