"""Where a file loses a NaN that its module would pass on."""

from torch.export import ExportedProgram

from delegates.passes.nan import may_be_nan, odd_constants
from delegates.report import operator_name
from delegates.source_lines import source_line

_LOSING = (
    *("max_pool1d", "max_pool2d", "max_pool2d_with_indices", "avg_pool2d", "adaptive_avg_pool2d"),
    "thimble::linear",
)
_QUANTIZED = "quantize_per_tensor"


def nan_loss(program: ExportedProgram, input: str) -> str:
    """Returns the operator, with its line, by which a NaN of an input is lost: the first on its way
    that loses one, and that delegates take although it does (delegates/passes/nan.py)."""
    odd = odd_constants(program)
    reached = {input}
    for node in program.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            reached |= {node.name for source in node.all_input_nodes if source.name in reached}
            continue
        if not any(source.name in reached for source in node.all_input_nodes):
            continue
        reached.add(node.name)
        name = operator_name(node)
        if _QUANTIZED in name:
            return "it is rounded to int8"
        if name in _LOSING and not may_be_nan(node.args[0], program, odd):
            return f"{name.rpartition(':')[2]} at {source_line(node)}"
    return "by an operator of the delegate"
