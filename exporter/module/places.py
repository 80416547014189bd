"""The user's lines that made a module's parts: the places of operators whose code is torch's own,
as in a bare `nn.Sequential`."""

import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.export import ExportedProgram

from delegates.source_lines import has_own_line

_LIBRARIES = (str(Path(torch.__file__).parent), "<", str(Path(__file__).parents[1]))
Frames = dict[int, str]  # of a trace, by the ids of modules


def is_users(file: str) -> bool:
    """Whether a file is of no library, by its whole name."""
    return (
        "site-packages" not in file
        and not file.startswith(_LIBRARIES)
        and not re.search(r"/lib/python3\.\d+/", file)
    )


@contextmanager
def noting_places() -> Iterator[Frames]:
    """Provides a dictionary that is filled, in the block, with the lines that make modules."""
    made: Frames = {}
    original = nn.Module.__init__

    def noting(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        frame = sys._getframe(1)
        while frame is not None and not is_users(frame.f_code.co_filename):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            code = frame.f_code
            made[id(self)] = _as_trace(code.co_filename, frame.f_lineno, code.co_name)

    with patch.object(nn.Module, "__init__", noting):
        yield made


def places_of(module: nn.Module, made: Frames, function: Callable[..., Any]) -> dict[str, str]:
    """Returns the frames by the names of the module's parts; of what was made elsewhere, as by
    unpickling, the function that returned it."""
    code = getattr(function, "__code__", None)
    parts = module.named_modules(remove_duplicate=False)
    if code is None:
        return {name: made[id(part)] for name, part in parts if id(part) in made}
    otherwise = _as_trace(code.co_filename, code.co_firstlineno, code.co_name)
    return {name: made.get(id(part), otherwise) for name, part in parts}


def end_traces_at_places(program: ExportedProgram, places: Mapping[str, str]) -> None:
    """Gives nodes whose trace has only lines of torch the line that made their module."""
    for node in program.graph.nodes:
        trace = node.meta.get("stack_trace")
        if not trace or has_own_line(trace):
            continue
        stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
        place = next((places[path] for path in reversed(stack) if path in places), None)
        if place is not None:
            node.meta["stack_trace"] = place


def _as_trace(file: str, line: int, function: str) -> str:
    return (
        f'  File "{file}", line {line}, in {function}\n    {linecache.getline(file, line).strip()}'
    )
