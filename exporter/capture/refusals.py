"""Explains, in one sentence with the model's line, why torch.export refused a model."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim, _trace, export
from torch.fx.experimental.symbolic_shapes import (
    ConstraintViolationError,
    GuardOnDataDependentSymNode,
)
from torch.utils._pytree import tree_leaves, tree_map

from delegates.source_lines import UNKNOWN, as_imported
from exporter.capture.shapes import Condition, guards, noting_conditions, shape_environment
from exporter.errors import ExportError

DynamicShapes = Any  # of torch.export: for each input its dynamic sizes

# It prints the graph up to what it refuses, and nothing else; `refused` names the line.
vars(_trace)["print"] = lambda *_, **__: None

REFUSALS = (torch._dynamo.exc.UserError, GuardOnDataDependentSymNode, ConstraintViolationError)
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in [^\n]+\n[ \t]*([^\n]+)')


def refused(
    model: nn.Module,
    inputs: tuple[Any, ...],
    dims: DynamicShapes,
    error: Exception,
    keywords: dict[str, Any] | None = None,
    line: str | None = None,
) -> ExportError:
    """Returns the error to raise for one of REFUSALS.

    Args:
        inputs, dims, keywords: the arguments of torch.export.
        error: the error that it raised.
        line: of the model's, at which it did.
    """
    frames = _FRAME.findall(str(error).rpartition("raised this error:")[2])
    if isinstance(error, GuardOnDataDependentSymNode) and frames:
        file, number, code = frames[-1]
        return ExportError(
            f"{as_imported(Path(file))}:{number} ({code.strip()}) branches on numbers that are "
            "known only when the program runs; branch on sizes, or compute both ways and choose "
            "with torch.where."
        )
    if isinstance(error, GuardOnDataDependentSymNode) and line is not None:
        return ExportError(
            f"{line} takes a size or a number of Python from numbers that are known only when the "
            "program runs; compute with tensors there, such as torch.where and a mask."
        )
    asked = ", ".join(dict.fromkeys(str(size.__name__) for size in _sizes(dims)))
    if found := re.search(r"(\d+) not in range", str(error)):
        return ExportError(
            f"An example input has size {found[1]}, which its Dim does not allow; give one within "
            f"the range of {asked}."
        )
    recurrent = any(isinstance(part, nn.RNNBase) for part in model.modules())
    hint = ", or, as a recurrent layer takes one length, leave its Dim out" if recurrent else ""
    for condition in _settled(model, inputs, dims, keywords):
        known = condition.line != UNKNOWN
        where, what = (condition.line, "that line") if known else ("The module", "it")
        return ExportError(
            f"{where} requires {condition.text}, but {asked} should vary more; write {what} for "
            f"every size, or restrict the sizes{hint}."
        )
    return ExportError(f"The model cannot be captured: {str(error).strip().splitlines()[0]}")


def _sizes(dims: DynamicShapes) -> list[Any]:
    """Returns the named sizes among them."""
    return [size for size in tree_leaves(dims) if hasattr(size, "__name__")]


def _settled(
    model: nn.Module,
    inputs: tuple[Any, ...],
    dims: DynamicShapes,
    keywords: dict[str, Any] | None,
) -> list[Condition]:
    """Returns the conditions that were refused: what tracing decides if the sizes are free."""

    def freed(size: Any) -> Any:
        if not hasattr(size, "__name__"):
            return size
        return Dim.AUTO(min=getattr(size, "min", None), max=getattr(size, "max", None))

    free = tree_map(freed, dims)
    try:
        with noting_conditions() as lines:
            environment = shape_environment(
                export(model, inputs, keywords or None, dynamic_shapes=free)
            )
    except REFUSALS:
        return []
    return [] if environment is None else guards(environment, lines)
