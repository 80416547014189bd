"""Explains, in one sentence with the model's line, why torch.export refused a model."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim, export
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from delegates.source_lines import as_imported
from exporter.capture.shapes import Condition, guards, noting_conditions, shape_environment
from exporter.errors import ExportError

DynamicShapes = tuple[dict[int, Any] | None, ...]  # for each input: its dynamic sizes

REFUSALS = (torch._dynamo.exc.UserError, GuardOnDataDependentSymNode)
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in [^\n]+\n[ \t]*([^\n]+)')


def refused(
    model: nn.Module, inputs: tuple[Any, ...], dims: DynamicShapes, error: Exception
) -> ExportError:
    """Returns the error to raise for one of REFUSALS.

    Args:
        inputs, dims: the arguments of torch.export.
        error: the error that it raised.
    """
    frames = _FRAME.findall(str(error).rpartition("raised this error:")[2])
    if isinstance(error, GuardOnDataDependentSymNode) and frames:
        file, number, code = frames[-1]
        return ExportError(
            f"{as_imported(Path(file))}:{number} ({code.strip()}) branches on numbers that are "
            "known only when the program runs; branch on sizes, or compute both ways and choose "
            "with torch.where."
        )
    asked = ", ".join(str(size.__name__) for item in dims for size in (item or {}).values())
    for condition in _settled(model, inputs, dims):
        return ExportError(
            f"{condition.line} requires {condition.text}, but {asked} should vary more; write that "
            "line for every size, or restrict the sizes."
        )
    return ExportError(f"The model cannot be captured: {str(error).strip().splitlines()[0]}")


def _settled(model: nn.Module, inputs: tuple[Any, ...], dims: DynamicShapes) -> list[Condition]:
    """Returns the conditions that were refused: what tracing decides if the sizes are free."""
    free = tuple(
        None
        if item is None
        else {index: Dim.AUTO(min=size.min, max=size.max) for index, size in item.items()}
        for item in dims
    )
    try:
        with noting_conditions() as lines:
            environment = shape_environment(export(model, inputs, dynamic_shapes=free))
    except REFUSALS:
        return []
    return [] if environment is None else guards(environment, lines)
