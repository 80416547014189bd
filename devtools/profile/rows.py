"""Time of calls summed up: by line, module, kind of operator, or decoder layer.

In every view the self times of all rows add up to the calls' time: what is no event's has rows of
its own.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from devtools.profile.known_work import KnownWork
from devtools.profile.model import Call, Event, Line


class View(StrEnum):
    """What time is summed up by."""

    LINE = "line"
    MODULE = "module"
    OP = "op"
    LAYER = "layer"


class Kind(StrEnum):
    """What a row stands for."""

    EVENTS = "events"
    UNATTRIBUTED = "unattributed"
    OVERHEAD = "overhead"


@dataclass(frozen=True)
class Row:
    """One line of a view.

    Attributes:
        key: exporter/models/attention.py:56, model.layers.0.mlp, linear, or layer 3.
        kind: events with a line, events without, or time between events.
        self_ns: of its own.
        total_ns: with what it calls; of a line also what other lines do on its behalf.
        count: events of its own.
        line: of the view by line.
        also: other lines whose work the same events do.
        work: as far as its events tell of it.
        median_ns: of its own in the median call, which a call that the system interrupted does not
            move.
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


# Events, each with the number of its call among those that are looked at.
_Events = Sequence[tuple[int, Event]]


@dataclass
class _Sum:
    self_ns: int = 0
    total_ns: int = 0
    count: int = 0
    line: Line | None = None
    also: dict[Line, None] = field(default_factory=dict)
    work: KnownWork = field(default_factory=KnownWork)
    per_call: Counter[int] = field(default_factory=Counter)

    def add_own(self, call: int, event: Event) -> None:
        self.per_call[call] += event.duration_ns
        self.self_ns += event.duration_ns
        self.count += 1
        self.work.add(event)

    def row(self, key: str, kind: Kind, calls: int) -> Row:
        return Row(
            key,
            kind,
            self.self_ns,
            self.total_ns,
            self.count,
            self.line,
            tuple(self.also),
            self.work,
            round(median(self.per_call[call] for call in range(calls))),
        )


def make_rows(calls: Sequence[Call], view: View) -> list[Row]:
    """The rows of a view, the most time of their own in the median call first; what is no line's
    comes last. Of no calls there are none."""
    if not calls:
        return []
    sums: dict[str, _Sum] = {}
    events = [(number, event) for number, call in enumerate(calls) for event in call.events]
    _VIEWS[view]([(call, event) for call, event in events if event.lines], sums)
    rows = [item.row(key, Kind.EVENTS, len(calls)) for key, item in sums.items()]
    rows.sort(key=lambda row: (-row.median_ns, -row.self_ns, row.key))
    return [*rows, *_unattributed(events, len(calls)), *_overheads(calls)]


def _by_line(events: _Events, sums: dict[str, _Sum]) -> None:
    for call, event in events:
        own = event.lines[0]
        for line in dict.fromkeys((*event.stack, own)):
            item = sums.setdefault(line.location, _Sum(line=line))
            item.total_ns += event.duration_ns
            if line.location == own.location:
                item.add_own(call, event)
                item.also.update(dict.fromkeys(event.lines[1:]))


def _by_module(events: _Events, sums: dict[str, _Sum]) -> None:
    for call, event in events:
        parts = event.module_path.split(".") if event.module_path else []
        for end in range(len(parts) + 1):
            sums.setdefault(
                ".".join(parts[:end]) or "(model)", _Sum()
            ).total_ns += event.duration_ns
        sums[event.module_path or "(model)"].add_own(call, event)


def _by_op(events: _Events, sums: dict[str, _Sum]) -> None:
    _by_key(events, sums, lambda event: event.kind)


def _by_layer(events: _Events, sums: dict[str, _Sum]) -> None:
    _by_key(
        events,
        sums,
        lambda event: "outside of layers" if event.layer is None else f"layer {event.layer}",
    )


def _by_key(events: _Events, sums: dict[str, _Sum], key: Callable[[Event], str]) -> None:
    for call, event in events:
        item = sums.setdefault(key(event), _Sum())
        item.total_ns += event.duration_ns
        item.add_own(call, event)


_VIEWS: dict[View, Callable[[_Events, dict[str, _Sum]], None]] = {
    View.LINE: _by_line,
    View.MODULE: _by_module,
    View.OP: _by_op,
    View.LAYER: _by_layer,
}


def _unattributed(events: _Events, calls: int) -> list[Row]:
    sums: dict[str, _Sum] = {}
    for call, event in events:
        if not event.lines:
            key = event.name if event.backend is None else f"{event.backend}: {event.name}"
            item = sums.setdefault(key, _Sum())
            item.total_ns += event.duration_ns
            item.add_own(call, event)
    rows = [item.row(key, Kind.UNATTRIBUTED, calls) for key, item in sums.items()]
    return sorted(rows, key=lambda row: -row.self_ns)


def _overheads(calls: Sequence[Call]) -> list[Row]:
    rows = []
    for backend in dict.fromkeys(item.backend for call in calls for item in call.delegate_calls):
        times = [_outside_operators(call, backend) for call in calls]
        count = sum(item.backend == backend for call in calls for item in call.delegate_calls)
        rows.append(_overhead(f"{backend}, outside its operators", times, count))
    times = [call.runtime_overhead_ns for call in calls]
    return [*rows, _overhead("the runtime, between instructions", times, len(calls))]


def _outside_operators(call: Call, backend: str) -> int:
    whole = sum(item.duration_ns for item in call.delegate_calls if item.backend == backend)
    return whole - sum(event.duration_ns for event in call.events if event.backend == backend)


def _overhead(key: str, times: Sequence[int], count: int) -> Row:
    whole = sum(times)
    return Row(key, Kind.OVERHEAD, whole, whole, count, median_ns=round(median(times)))
