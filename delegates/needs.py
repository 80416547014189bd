"""What a captured program needs of a delegate."""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.features import Feature, Need
from delegates.passes.quantized import (
    LINEAR,
    embedding_arguments,
    embeddings_of,
    linear_arguments,
    linears_of,
)
from delegates.source_lines import source_line
from delegates.storage import FLOAT_BITS, StoredAs


def needs_of_program(program: ExportedProgram) -> list[Need]:
    """Returns the features whose operators it has, in the table's order and each with the line of
    the first, then that of its weights."""
    first: dict[str, Node] = {}
    for node in program.graph.nodes:
        first.setdefault(str(node.target), node)
    needs = [
        Need(feature, where=f" ({source_line(first[feature.operator])})")
        for feature in Feature
        if feature.operator in first
    ]
    if any(type.bits == 8 and type.group_size > 0 for type in weight_types(program)):
        needs.append(Need(Feature.FLOAT16_GROUPS))
    return needs


def longest_call(program: ExportedProgram) -> int:
    """Returns the most tokens of a call."""
    tokens = next(node for node in program.graph.nodes if node.name == "tokens")
    seq_len = tokens.meta["val"].shape[1]
    if isinstance(seq_len, torch.SymInt):
        return int(program.range_constraints[seq_len.node.expr].upper)
    return int(seq_len)


def hidden_size(program: ExportedProgram) -> int | None:
    """Returns what the head multiplies; None if it is not quantized."""
    linears = linears_of(program.graph)
    return linear_arguments(linears[-1]).input.meta["val"].shape[-1] if linears else None


def weight_types(program: ExportedProgram) -> list[StoredAs]:
    """Returns those of all quantized linears and embeddings."""
    types: list[StoredAs] = [linear_arguments(node) for node in linears_of(program.graph)]
    return types + [embedding_arguments(node) for node in embeddings_of(program.graph)]


def layer_bits(program: ExportedProgram) -> set[int]:
    """Returns the widths of the layers' weights; the head, which comes last, may have another."""
    linears = [
        linear_arguments(node).bits if str(node.target) == LINEAR else FLOAT_BITS
        for node in program.graph.nodes
        if str(node.target) == LINEAR or node.target is torch.ops.aten.linear.default
    ]
    return set(linears[:-1])
