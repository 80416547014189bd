"""Why a captured program takes the sizes that it takes: each bound, with the line that asks for it.

While it traces, torch.export settles facts about sizes: that one is a constant, that one is at most
so large. It keeps such a fact with a line of torch's, and a check that is left to the program with
the line that read the number; so the model's lines are noted here as the conditions are made.
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

from delegates.lines import UNKNOWN, as_imported, source_line

_LOG = "_log_guard"  # where a ShapeEnv says of every condition that it has become one
_TORCH = Path(torch.__file__).parent
_SIGNS = {sympy.Eq: "==", sympy.Ne: "!="}
_UNBOUNDED = 10**15  # torch's "no bound" is a little below 2^63


@dataclass(frozen=True)
class Condition:
    """A fact about sizes that the program takes for granted, or checks.

    Attributes:
        text: such as `tokens.size(1) <= 512`.
        line: of the model that needs it, as in exporter/models/mlp.py:38.
        checked: when the program runs; else it was settled for good while tracing.
    """

    text: str
    line: str
    checked: bool


@dataclass(frozen=True)
class Size:
    """A number that the program does not know beforehand.

    Attributes:
        name: such as `tokens.size(1)` or `input_pos.item()`.
        line: that reads it; None for a size of an input.
        least, most: what it may be; None without a bound.
    """

    name: str
    line: str | None
    least: int | None
    most: int | None


@dataclass(frozen=True)
class Shapes:
    """
    Attributes:
        varying: what is known only when the program runs.
        fixed: sizes of inputs that are constants, by name.
        conditions: what holds between them.
    """

    varying: tuple[Size, ...]
    fixed: Mapping[str, int]
    conditions: tuple[Condition, ...]


@contextmanager
def noting_conditions() -> Iterator[dict[str, str]]:
    """The lines of the model that need something of sizes, by what they need, of the programs that
    are captured meanwhile."""
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
    """Notes the innermost line of a module's forward, not of torch, that is being run."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "forward" and not Path(code.co_filename).is_relative_to(_TORCH):
            line = f"{as_imported(Path(code.co_filename))}:{frame.f_lineno}"
            lines.setdefault(str(expression), line)
            return
        frame = frame.f_back


def explain_shapes(program: ExportedProgram, lines: Mapping[str, str]) -> Shapes:
    """What a captured program knows of its sizes.

    Args:
        lines: as noting_conditions() gave them when it was captured.
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
    """What traced the program's sizes; None where it has no tensor."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, FakeTensor):
            environment: ShapeEnv | None = value.fake_mode.shape_env
            return environment
    return None


def guards(environment: ShapeEnv, lines: Mapping[str, str]) -> list[Condition]:
    """What tracing settled for good, in its order."""
    names = _input_names(environment)
    found = []
    for guard in environment.guards:
        line = lines.get(str(guard.expr), UNKNOWN)
        found.append(Condition(_shown(guard.expr, names), line, False))
    return list(dict.fromkeys(found))


def _input_names(environment: ShapeEnv) -> dict[Any, str]:
    """Symbols of inputs' sizes, as `tokens.size(1)`."""
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
    found = program.range_constraints.get(symbol)
    if found is None:
        return None, None
    ends = [int(end) if end.is_Integer else None for end in (found.lower, found.upper)]
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
