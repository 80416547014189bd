"""A user's module and its file: by line, on the module's example."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from executorch.exir.tensor import scalar_type_enum
from torch import Tensor, nn

from delegates import get_delegates
from delegates.methods import FORWARD
from delegates.module import load_module
from devtools.commands.compare_program import watched
from devtools.compare.figures import Distance, distance
from devtools.compare.graph_values import LoggedRows, Sink
from devtools.compare.logged import Log, Rows
from devtools.compare.recording import Place, Recorder
from devtools.compare.rows import CALL, Comparison, Row
from devtools.errors import BadRequest
from devtools.profile.etrecord import Record
from devtools.profile.profile_types import Line
from devtools.profile.stack import parse_stack
from exporter.module.source import Inputs, Made, make_methods
from exporter.module.source_name import SourceName
from exporter.module.state import state_kept
from runtime.watch import WatchedTensor

# Of two values that are the same but for rounding, at most; of others it is about 1.
_ALIKE, _ALIKE_IN_FLOAT = 0.5, 1e-2

_Hook = Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...] | None]


def make_exported(source: SourceName, facts: dict[str, Any], path: Path) -> Made:
    """Makes the module of a file.

    Args:
        facts: of the module, from the file's report.

    Raises:
        BadRequest: it is another module.
        ExportError: the user's function fails.
    """
    source.check_file()
    methods = make_methods(source)
    if list(methods) != [FORWARD]:
        raise BadRequest(
            f"{source} makes the methods {', '.join(methods)}; compare takes a module of the one "
            f"method {FORWARD}."
        )
    made = methods[FORWARD]
    now = {
        "class": type(made.module).__name__,
        "parameters": sum(one.numel() for one in made.module.parameters()),
    }
    for name, value in now.items():
        if facts[name] != value:
            raise BadRequest(
                f"{path} has {name} {facts[name]} but {source} makes {value}; name the function "
                "that was exported."
            )
    return made


def load_delegates(delegation: dict[str, Any], path: Path) -> bool:
    """Registers what a file needs to run; returns whether this machine can run it.

    Args:
        delegation: from the file's report.
    """
    delegates = get_delegates(delegation["delegate"])
    users = [part["delegate"] for part in delegation["parts"] if part["calls"]] or delegates
    return load_module(delegates, users, path) is not None


@torch.no_grad()
def compare_module(path: Path, made: Made, record: Record, rounds: bool) -> Comparison:
    """Runs the float module and the file on the example. The module's second run reads in each of
    its modules what the program computed before it.

    Args:
        rounds: whether the file has integers.

    Raises:
        BadRequest, DevtoolsError, RunnerError: the file cannot be watched, or shows nothing.
    """
    with Log() as log, watched(path, record, log, 0) as (program, collector):
        collector.begin_call(0)
        program.run([_described(leaf) for leaf in made.inputs.leaves()], collector.take)
        logged = _finished(collector.rows())
        most = _ALIKE if rounds else _ALIKE_IN_FLOAT
        places = _places(made, record)
        own, restarted = Recorder(places=places), Recorder(places=places)
        _run(made, made.inputs, own, None)
        shown = [_Shown(item, place) for item in logged if (place := _place(item, own)) is not None]
        shown = [one for one in shown if one.is_sure(own) or one.distance(own).relative < most]
        _run(made, made.inputs, restarted, _reading(shown, own, restarted))
        rows = []
        for one in shown:
            reference = own.values[one.place]
            alone, so_far = {CALL: one.distance(restarted)}, one.distance(own)
            rows.append(Row(one.item.sink, alone, so_far, distance(reference, reference), None))
    matched = {row.sink.order for row in rows}
    return Comparison(rows, [item.sink for item in logged if item.sink.order not in matched])


def _places(made: Made, record: Record) -> dict[str, Line]:
    """Returns the lines that made the module's parts, with files named as in the record."""
    short = {file: name for name, file in record.files.items()}
    lines = {path: parse_stack(frame)[0] for path, frame in made.places.items()}
    return {
        path: replace(line, file=short.get(line.file, line.file)) for path, line in lines.items()
    }


def _finished(logged: Sequence[LoggedRows]) -> list[LoggedRows]:
    """Returns those whose node no later operator goes on with: several may share what they run, and
    the last one has its value."""
    last = {item.sink.order: item for item in logged}
    sinks = [item.sink for item in last.values()]

    def goes_on(sink: Sink, later: Sink) -> bool:
        more = later.handles != sink.handles and sink.handle in later.handles
        return more and later.order > sink.order

    return [item for item in last.values() if not any(goes_on(item.sink, one) for one in sinks)]


@dataclass(frozen=True)
class _Shown:
    """What the program computed for a value of the module.

    Attributes:
        place: where the module computes it.
    """

    item: LoggedRows
    place: Place

    def is_sure(self, recorder: Recorder) -> bool:
        """Whether nothing else can be meant: lowering may write one operator as several, and may
        leave some of a line's out."""
        place = self.item.sink.place
        return place in recorder.values and replace(place, occurrence=1) not in recorder.values

    def like(self, wanted: Tensor) -> Tensor:
        """The program's numbers in the module's order: a delegate may have a picture's or a sound's
        channels side by side."""
        plain = self._numbers(wanted.shape[-1]).reshape(wanted.shape)
        if wanted.dim() < 3:
            return plain
        last = plain.reshape(wanted.movedim(1, -1).shape).movedim(-1, 1)
        return min(plain, last, key=lambda one: distance(wanted, one).noise)

    def distance(self, recorder: Recorder) -> Distance:
        """From what the module computed; of numbers in some other order, from all of its."""
        wanted = recorder.values[self.place]
        known = distance(wanted, self.like(wanted))
        if known.relative < _ALIKE:
            return known
        sets = (values.flatten().sort().values for values in (wanted, self.like(wanted)))
        return min(known, distance(*sets), key=lambda one: one.relative)

    def _numbers(self, columns: int) -> Tensor:
        rows = self.item.calls[0]
        times = max(1, rows.width // columns)  # rows of a sample, which lie side by side
        if rows.whole == rows.width or any(n % times for n in (rows.whole, rows.first, rows.width)):
            return rows.read()
        size = rows.whole // times, rows.first // times, rows.width // times
        return Rows(rows.log, rows.parts, *size).read()


def _place(item: LoggedRows, recorder: Recorder) -> Place | None:
    """Where the module computes a value: by that operator, else by the line's last similar one.
    Integers on the way to another line are none of its values."""
    place, rows = item.sink.place, item.calls[0]
    if place.operator.startswith(("quantize", "dequantize")):
        return None
    value = recorder.find(
        place, lambda one: one.is_floating_point() and one.numel() == len(rows) * rows.width
    )
    return next((where for where, one in recorder.values.items() if one is value), None)


def _described(leaf: Tensor) -> WatchedTensor:
    return WatchedTensor(leaf.data_ptr(), int(scalar_type_enum(leaf.dtype)), list(leaf.shape))


def _reading(shown: Sequence[_Shown], own: Recorder, recorder: Recorder) -> _Hook:
    """Returns what gives a module the program's numbers instead of its own, as far as the program
    shows them in their order."""
    ordered = {
        one.place: one
        for one in shown
        if distance(own.values[one.place], one.like(own.values[one.place])).relative < _ALIKE
    }

    def read(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        for place, one in ordered.items():
            value = recorder.values.get(place)
            if value is not None and args and args[0] is value:
                return (one.like(value).to(value.dtype), *args[1:])
        return None

    return read


def _run(made: Made, inputs: Inputs, recorder: Recorder, reading: _Hook | None) -> None:
    modules = [one for one in made.module.modules() if one is not made.module]
    hooks = [one.register_forward_pre_hook(reading) for one in modules if reading is not None]
    try:
        with state_kept(made.module), recorder.watching(made.module, ""):
            inputs.call(made.module)
    finally:
        for hook in hooks:
            hook.remove()
