"""Time of calls summed up: by line, module, kind of operator, or decoder layer.

In every view, the self times of all rows add up to the calls' time: time outside events has its own
rows, and an event that fuses several lines or modules is divided among them (see
devtools/profile/sharing.py).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from devtools.profile.known_work import KnownWork
from devtools.profile.profile_types import Call, Event, Line


class View(StrEnum):
    """What time is summed up by: modules of one place in all decoder layers together, or each."""

    LINE = "line"
    MODULE = "module"
    EACH_MODULE = "each_module"
    OP = "op"
    LAYER = "layer"


_ANY_LAYER = "*"  # in a module's path, in place of a layer's number
_WHOLE_MODEL = "(model)"


class Kind(StrEnum):
    """What a row stands for."""

    EVENTS = "events"
    UNATTRIBUTED = "unattributed"
    OVERHEAD = "overhead"


@dataclass(frozen=True)
class Row:
    """One line of a view.

    Attributes:
        key: exporter/models/attention.py:56, model.layers.*.mlp, linear, or layer 3.
        kind: events with a line, events without, or time between events.
        self_ns: its own time; of an event that it shares with other rows, its share.
        total_ns: with what it calls; of a line also what other lines do on its behalf.
        count: the number of events that it has time of.
        line: of the view by line.
        also: other lines whose work the same events do, without time of their own.
        work: as far as its events report it.
        median_ns: its own time in the median call, which a call that the system interrupted does
            not change.
        shared_ns: of self_ns, its shares of events that other rows have a part in.
        shared_with: the keys of those rows.
        layers: how many decoder layers the key stands for; 0 where it names one, or none.
    """

    key: str
    kind: Kind
    self_ns: int
    total_ns: int
    count: int = 0
    line: Line | None = None
    also: tuple[Line, ...] = ()
    work: KnownWork = field(default_factory=KnownWork)
    median_ns: int = 0
    shared_ns: int = 0
    shared_with: tuple[str, ...] = ()
    layers: int = 0


# Events, each with the number of its call among those that are looked at.
_Events = Sequence[tuple[int, Event]]
# Of a portion of an event: the key that has its time, and all keys whose total holds it, each with
# its line where it is one.
_Place = tuple[str, Mapping[str, Line | None]]


@dataclass
class _Sum:
    self_ns: int = 0
    total_ns: int = 0
    count: int = 0
    line: Line | None = None
    also: dict[Line, None] = field(default_factory=dict)
    work: KnownWork = field(default_factory=KnownWork)
    per_call: Counter[int] = field(default_factory=Counter)
    shared_ns: int = 0
    shared_with: dict[str, None] = field(default_factory=dict)
    layers: set[int] = field(default_factory=set)

    def add_own(self, call: int, portion: Event) -> None:
        self.per_call[call] += portion.duration_ns
        self.self_ns += portion.duration_ns
        self.also.update(dict.fromkeys(portion.lines[1:]))
        self.work.add(portion)

    def row(self, key: str, kind: Kind, calls: int) -> Row:
        return Row(
            key,
            kind,
            self.self_ns,
            self.total_ns,
            self.count,
            self.line,
            tuple(self.also) if self.line else (),
            self.work,
            round(median(self.per_call[call] for call in range(calls))),
            self.shared_ns,
            tuple(self.shared_with),
            len(self.layers) if _ANY_LAYER in key.split(".") else 0,
        )


def make_rows(calls: Sequence[Call], view: View) -> list[Row]:
    """The rows of a view, those with the most time of their own in the median call first; rows that
    are not lines come last. Without calls, there are none."""
    if not calls:
        return []
    events = [(number, event) for number, call in enumerate(calls) for event in call.events]
    sums = _sum_up([(call, event) for call, event in events if event.lines], _PLACES[view])
    rows = [item.row(key, Kind.EVENTS, len(calls)) for key, item in sums.items()]
    rows.sort(key=lambda row: (-row.median_ns, -row.self_ns, row.key))
    return [*rows, *_unattributed(events, len(calls)), *_overheads(calls)]


def _sum_up(events: _Events, place: Callable[[Event], _Place]) -> dict[str, _Sum]:
    sums: dict[str, _Sum] = {}
    for call, event in events:
        times: dict[str, int] = {}
        for portion in event.portions:
            key, above = place(portion)
            for name, line in above.items():
                item = sums.setdefault(name, _Sum(line=line))
                item.total_ns += portion.duration_ns
                if portion.layer is not None:
                    item.layers.add(portion.layer)
            sums[key].add_own(call, portion)
            times[key] = times.get(key, 0) + portion.duration_ns
        for key, time in times.items():
            item = sums[key]
            item.count += 1
            if len(times) > 1:
                item.shared_ns += time
                item.shared_with.update(dict.fromkeys(other for other in times if other != key))
    return sums


def without_layer(module_path: str, layer: int | None) -> str:
    """model.layers.*.mlp of model.layers.3.mlp, whose layer is 3."""
    parts = module_path.split(".")
    if layer is not None and str(layer) in parts:
        parts[parts.index(str(layer))] = _ANY_LAYER
    return ".".join(parts)


def _of_line(event: Event) -> _Place:
    own = event.lines[0]
    return own.location, {line.location: line for line in (*event.stack, own)}


def _of_module(event: Event) -> _Place:
    return _of_path(without_layer(event.module_path, event.layer))


def _of_each_module(event: Event) -> _Place:
    return _of_path(event.module_path)


def _of_path(path: str) -> _Place:
    parts = path.split(".") if path else []
    above = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return path or _WHOLE_MODEL, dict.fromkeys([_WHOLE_MODEL, *above])


def _of_op(event: Event) -> _Place:
    return event.kind, {event.kind: None}


def _of_layer(event: Event) -> _Place:
    key = "outside of layers" if event.layer is None else f"layer {event.layer}"
    return key, {key: None}


_PLACES: dict[View, Callable[[Event], _Place]] = {
    View.LINE: _of_line,
    View.MODULE: _of_module,
    View.EACH_MODULE: _of_each_module,
    View.OP: _of_op,
    View.LAYER: _of_layer,
}


def _unattributed(events: _Events, calls: int) -> list[Row]:
    sums: dict[str, _Sum] = {}
    for call, event in events:
        if not event.lines:
            key = event.name if event.backend is None else f"{event.backend}: {event.name}"
            item = sums.setdefault(key, _Sum())
            item.total_ns += event.duration_ns
            item.count += 1
            item.add_own(call, event)
    rows = [item.row(key, Kind.UNATTRIBUTED, calls) for key, item in sums.items()]
    return sorted(rows, key=lambda row: -row.self_ns)


def _overheads(calls: Sequence[Call]) -> list[Row]:
    rows = []
    for backend in dict.fromkeys(item.backend for call in calls for item in call.delegate_calls):
        times = [_outside_operators(call, backend) for call in calls]
        count = sum(item.backend == backend for call in calls for item in call.delegate_calls)
        rows.append(_overhead(f"{backend}'s overhead", times, count))
    times = [call.runtime_overhead_ns for call in calls]
    return [*rows, _overhead("the runtime's overhead", times, len(calls))]


def _outside_operators(call: Call, backend: str) -> int:
    whole = sum(item.duration_ns for item in call.delegate_calls if item.backend == backend)
    return whole - sum(event.duration_ns for event in call.events if event.backend == backend)


def _overhead(key: str, times: Sequence[int], count: int) -> Row:
    whole = sum(times)
    return Row(key, Kind.OVERHEAD, whole, whole, count, median_ns=round(median(times)))
