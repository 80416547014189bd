"""Finds the operators that were replaced between capture and delegate, line by line."""

import operator
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.fx import Graph, Node

from delegates.report import operator_name
from delegates.source_lines import UNKNOWN, source_line

_OURS = "thimble::"


@dataclass(frozen=True)
class Decomposition:
    """A line whose operators changed.

    Attributes:
        line: of the model, as in exporter/models/mlp.py:38.
        captured: operators that disappeared, with the number of times.
        became: operators that replace them, with the number of times.
        reason: why.
    """

    line: str
    captured: Mapping[str, int]
    became: Mapping[str, int]
    reason: str


def operators_by_line(graph: Graph) -> dict[str, Counter[str]]:
    """Returns how often each line of the model has each operator."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for node in graph.nodes:
        if node.op == "call_function" and _computes(node):
            counts[source_line(node)][operator_name(node)] += 1
    return dict(counts)


def _computes(node: Node) -> bool:
    """Whether a node computes tensors; sizes, checks and items of tuples do not."""
    value = node.meta.get("val")
    return node.target is not operator.getitem and isinstance(value, Tensor | tuple | list)


def decompositions(
    captured: Mapping[str, Mapping[str, int]], edge: Mapping[str, Mapping[str, int]]
) -> list[Decomposition]:
    """Returns the differences between two graphs of one model, in the order of the first.

    Args:
        captured: operators of the program that torch.export returned.
        edge: operators of the program that was offered to the delegate.
    """
    records = []
    for line, before in captured.items():
        after = edge.get(line, {})
        gone = Counter(before) - Counter(after)
        new = Counter(after) - Counter(before)
        if line != UNKNOWN and (gone or new):
            records.append(Decomposition(line, gone, new, _reason(gone, new)))
    return records


def _reason(gone: Mapping[str, int], new: Mapping[str, int]) -> str:
    if not new:
        if all(name in _VIEWS | _SAME for name in gone):
            return "nothing is left to compute: a check, or an identity"
        return "part of another line's operator, or not needed by the delegate"
    if any(name.startswith(_OURS) for name in gone):
        return "rewritten into operators that the delegate knows"
    if all(name.removesuffix("_copy") in _VIEWS for name in (*gone, *new)):
        return "an ExecuTorch program has no views, only copies"
    return "an ExecuTorch program has core ATen operators only"


_SAME = {"_assert_scalar", "_assert_tensor_metadata", "clone", "detach", "dropout", "to"}
_VIEWS = {
    "alias",
    "chunk",
    "contiguous",
    "expand",
    "flatten",
    "narrow",
    "permute",
    "reshape",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unflatten",
    "unsqueeze",
    "view",
}
