"""Max pools that keep a NaN: ExecuTorch's kernel loses one that is not the first of its window."""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.passes.graph import call_like, complete_values
from delegates.passes.nan import may_be_nan, odd_constants

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)  # which no delegate pools


def keep_nans(program: ExportedProgram) -> None:
    """Puts the NaN back, in place, behind each pool whose input may hold one that the module made,
    or is of a half type. A second pool finds where."""
    graph, odd = program.graph, odd_constants(program)
    for node in graph.find_nodes(op="call_function", target=_aten.max_pool2d.default):
        x = node.all_input_nodes[0]
        if x.meta["val"].dtype in _HALVES or may_be_nan(x, program, odd):
            _keep_nan(node, x)
    complete_values(program)
    program.graph_module.recompile()


def _keep_nan(node: Node, x: Node) -> None:
    with node.graph.inserting_after(node):
        kept = call_like(node, _aten.masked_fill.Scalar)
    node.replace_all_uses_with(kept)
    with node.graph.inserting_before(kept):
        odd = call_like(node, _aten._to_copy.default, call_like(node, _aten.isnan.default, x))
        odd.kwargs = {"dtype": torch.float32}
        pooled = call_like(node, _aten.max_pool2d.default, odd, *node.args[1:])
        kept.args = (node, call_like(node, _aten.gt.Scalar, pooled, 0), float("nan"))
