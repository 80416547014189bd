"""Inputs whose only sample may have fewer rows than it was captured with.

A graph of fixed shapes is lowered; what its operators do with fewer rows, the delegate knows.
"""

from collections.abc import Collection

from torch.export import ExportedProgram

_MARK = "may_be_shorter"


def mark_shorter(program: ExportedProgram, names: Collection[str]) -> None:
    """Marks inputs of a captured program, (1, rows, width)."""
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in names:
            node.meta[_MARK] = True


def shorter_inputs(program: ExportedProgram) -> list[str]:
    placeholders = program.graph.find_nodes(op="placeholder")
    return [node.name for node in placeholders if node.meta.get(_MARK)]
