"""Explains the sizes of a captured program: each bound, with the line that requires it.

During tracing, torch.export decides facts about sizes: that one is a constant, or has a bound. It
stores such a fact with a line of torch, and a check in the program with the line that read the
number. So the model's lines are recorded here when the conditions are created.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import sympy
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from delegates.source_lines import UNKNOWN, as_imported, source_line

_LOG = "_log_guard"  # where a ShapeEnv reports every new condition
_TORCH = Path(torch.__file__).parent
_SIGNS = {sympy.Eq: "==", sympy.Ne: "!="}
_UNBOUNDED = 10**15  # torch's "no bound" is a little below 2^63


@dataclass(frozen=True)
class Condition:
    """A fact about sizes that the program assumes or checks.

    Attributes:
        text: such as `tokens.size(1) <= 512`.
        line: the line of the model that requires it, such as exporter/models/mlp.py:38.
        checked: whether it is checked when the program runs; otherwise tracing has decided it.
    """

    text: str
    line: str
    checked: bool


@dataclass(frozen=True)
class Size:
    """A number that is known only when the program runs.

    Attributes:
        name: such as `tokens.size(1)` or `input_pos.item()`.
        line: the line that reads it; None for the size of an input.
        least, most: its bounds; None: no bound.
    """

    name: str
    line: str | None
    least: int | None
    most: int | None


@dataclass(frozen=True)
class Shapes:
    """
    Attributes:
        varying: sizes that are known only when the program runs.
        fixed: constant sizes of inputs, by name.
        conditions: the conditions on them.
    """

    varying: tuple[Size, ...]
    fixed: Mapping[str, int]
    conditions: tuple[Condition, ...]


@contextmanager
def noting_conditions() -> Iterator[dict[str, str]]:
    """Provides, for programs captured in the block, the model's lines that set conditions on sizes,
    by condition."""
    lines: dict[str, str] = {}
    log = getattr(ShapeEnv, _LOG)

    def noting_log(self: ShapeEnv, prefix: str, g: Any, forcing_spec: bool) -> None:
        _note(g, lines)
        log(self, prefix, g, forcing_spec=forcing_spec)

    setattr(ShapeEnv, _LOG, noting_log)
    try:
        yield lines
    finally:
        setattr(ShapeEnv, _LOG, log)


def _note(expression: Any, lines: dict[str, str]) -> None:
    """Records the innermost running line of a module's forward outside torch."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "forward" and not Path(code.co_filename).is_relative_to(_TORCH):
            line = f"{as_imported(Path(code.co_filename))}:{frame.f_lineno}"
            lines.setdefault(str(expression), line)
            return
        frame = frame.f_back


def explain_shapes(program: ExportedProgram, lines: Mapping[str, str]) -> Shapes:
    """Returns what is known about the sizes of a captured program.

    Args:
        lines: from noting_conditions() during the capture.
    """
    environment = shape_environment(program)
    names = {} if environment is None else _input_names(environment)
    varying = [
        Size(name, None, *_bounds(program, symbol))
        for symbol, name in names.items()
        if symbol in program.range_constraints
    ]
    for node in program.graph.nodes:
        for symbol in node.meta.get("unbacked_bindings") or ():
            read = node.all_input_nodes[:1] if node.target is torch.ops.aten.item.default else []
            names[symbol] = f"{read[0].name}.item()" if read else node.name
            varying.append(Size(names[symbol], source_line(node), *_bounds(program, symbol)))
    conditions = [] if environment is None else guards(environment, lines)
    for node in program.graph.find_nodes(
        op="call_function", target=torch.ops.aten._assert_scalar.default
    ):
        expression = _expression(node.args[0])
        line = lines.get(str(expression), source_line(node))
        conditions.append(Condition(_shown(expression, names), line, True))
    return Shapes(tuple(varying), _fixed_sizes(program), tuple(dict.fromkeys(conditions)))


def shape_environment(program: ExportedProgram) -> ShapeEnv | None:
    """Returns the environment that traced the program's sizes; None if there is no tensor."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, FakeTensor):
            environment: ShapeEnv | None = value.fake_mode.shape_env
            return environment
    return None


def guards(environment: ShapeEnv, lines: Mapping[str, str]) -> list[Condition]:
    """Returns the facts that tracing decided, in order."""
    names = _input_names(environment)
    texts = []
    for guard in environment.guards:
        line = lines.get(str(guard.expr), UNKNOWN)
        texts.append(Condition(_shown(guard.expr, names), line, False))
    return list(dict.fromkeys(texts))


def _input_names(environment: ShapeEnv) -> dict[Any, str]:
    """Returns the names of the symbols of inputs' sizes, such as `tokens.size(1)`."""
    names = {}
    for symbol, (source, *_) in environment.var_to_sources.items():
        tensor = getattr(getattr(source, "base", None), "local_name", None)
        index = getattr(source, "idx", None)
        names[symbol] = str(symbol) if tensor is None else f"{tensor}.size({index})"
    return names


def _shown(expression: Any, names: Mapping[Any, str]) -> str:
    text = str(expression)
    if isinstance(expression, sympy.Rel):
        sign = _SIGNS.get(type(expression), expression.rel_op)
        text = f"{expression.lhs} {sign} {expression.rhs}"
    for symbol, name in names.items():
        text = re.sub(rf"\b{re.escape(str(symbol))}\b", name, text)
    return text


def _expression(value: Any) -> Any:
    known = value.meta.get("val") if isinstance(value, Node) else value
    return getattr(getattr(known, "node", None), "expr", known)


def _bounds(program: ExportedProgram, symbol: Any) -> tuple[int | None, int | None]:
    constraint = program.range_constraints.get(symbol)
    if constraint is None:
        return None, None
    ends = [int(end) if end.is_Integer else None for end in (constraint.lower, constraint.upper)]
    least, most = (None if end is None or abs(end) > _UNBOUNDED else end for end in ends)
    return least, most


def _fixed_sizes(program: ExportedProgram) -> dict[str, int]:
    inputs = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    }
    return {
        f"{node.name}.size({index})": size
        for node in program.graph.find_nodes(op="placeholder")
        if node.name in inputs and isinstance(node.meta.get("val"), Tensor)
        for index, size in enumerate(node.meta["val"].shape)
        if isinstance(size, int)
    }
