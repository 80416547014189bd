"""The first pass: rewrites the captured program so that Core ML takes all of it in float16.

Core ML computes in float16 with only the weights quantized. So the pass removes the rounding of
activations, writes attention and normalization in operators whose values all fit float16, and drops
the checks of positions, which Core ML cannot express. Every new node gets the metadata (source
lines, module path) of the node that it replaces.
"""

from typing import cast

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.graph import call_like

_HIGHEST = 65504.0  # in float16
# Normalization divides by the largest magnitude of a token first: of a token of zeros by the first
# of these, and never by infinity.
_MAGNITUDES = (2.0**-12, _HIGHEST)

_aten = torch.ops.aten


def bound_clamps(program: ExportedProgram) -> None:
    """Gives each clamp of floats both bounds, in place: the converter's default of the other one
    is float32's, which float16 does not have."""
    for node in program.graph.find_nodes(op="call_function", target=_aten.clamp.default):
        if node.meta["val"].is_floating_point():
            low, high = (*node.args[1:], None)[:2]
            bounds = (-_HIGHEST if low is None else low, _HIGHEST if high is None else high)
            node.args = (node.args[0], *bounds)


def rewrite_norms(program: ExportedProgram) -> int:
    """Makes every root-mean-square norm safe in float16, in place; returns how many there were.

    The squares of a hidden state above 255 overflow float16, and real models have such states.
    With m the largest magnitude of a token and y = x / m, which lies in -1 .. 1,

        x / sqrt(mean(x^2) + eps) = y / sqrt(mean(y^2) + (sqrt(eps) / m)^2).
    """
    graph, count = program.graph, 0
    for rsqrt in list(graph.find_nodes(op="call_function", target=_aten.rsqrt.default)):
        matched = _match_norm(rsqrt)
        if matched is None:
            continue
        normed, x, eps = matched
        with graph.inserting_before(normed):
            magnitude = call_like(normed, _aten.abs.default, x)
            largest = call_like(normed, _aten.amax.default, magnitude, [-1], True)
            largest = call_like(normed, _aten.clamp.default, largest, *_MAGNITUDES)
            unit = call_like(normed, _aten.div.Tensor, x, largest)
            square = call_like(normed, _aten.mul.Tensor, unit, unit)
            mean = call_like(normed, _aten.mean.dim, square, [-1], True)
            root = call_like(normed, _aten.full.default, [1], eps**0.5)
            ratio = call_like(normed, _aten.div.Tensor, root, largest)
            floor = call_like(normed, _aten.mul.Tensor, ratio, ratio)
            total = call_like(normed, _aten.add.Tensor, mean, floor)
            inverse = call_like(normed, _aten.rsqrt.default, total)
            out = call_like(normed, _aten.mul.Tensor, unit, inverse)
        normed.replace_all_uses_with(out)
        count += 1
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return count


def _match_norm(rsqrt: Node) -> tuple[Node, Node, float] | None:
    """Returns (the product x * rsqrt(mean(x^2) + eps), x, eps) if `rsqrt` is part of such a
    product."""
    add = cast(Node, rsqrt.args[0])
    if add.target is not _aten.add.Tensor or not isinstance(add.args[1], float):
        return None
    mean = cast(Node, add.args[0])
    if mean.target is not _aten.mean.dim or tuple(mean.args[1:]) != ([-1], True):
        return None
    square = cast(Node, mean.args[0])
    if square.target is not _aten.pow.Tensor_Scalar or square.args[1] != 2:
        return None
    x = cast(Node, square.args[0])
    for user in rsqrt.users:
        if user.target is _aten.mul.Tensor and user.args == (x, rsqrt):
            return user, x, add.args[1]
    return None
