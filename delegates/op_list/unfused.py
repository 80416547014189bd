"""Lists the ops of a program that were not merged although others of their kind were, and why."""

from torch.export import ExportedProgram

from delegates.contract import Unfused
from delegates.op_list.canonicalize import tidy
from delegates.op_list.graph import Constants
from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Values
from delegates.op_list.partition import call_outputs, find_calls
from delegates.op_list.peepholes import merge
from delegates.source_lines import source_line


def why_unfused(program: ExportedProgram) -> list[Unfused]:
    """
    Args:
        program: in the edge dialect, as to_edge() made it; tidy() changes it in place.
    """
    tidy(program)
    sentences = []
    for ops in find_calls(program.graph, Values(Constants(program))).ops:
        op_list = OpList(ops, call_outputs(ops))
        reasons = merge(op_list)
        sentences += [
            Unfused(op.name, op.label, source_line(op.node), reasons[op].reason)
            for op in op_list
            if op in reasons
        ]
    return sentences
