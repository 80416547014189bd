"""Time of calls summed up: by line, module, kind of operator, or decoder layer.

In every view the self times of all rows add up to the calls' time: what is no event's has rows of
its own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

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
        key: exporter/model.py:94, model.layers.0.mlp, linear, or layer 3.
        kind: events with a line, events without, or time between events.
        self_ns: of its own.
        total_ns: with what it calls; of a line also what other lines do on its behalf.
        count: events of its own.
        line: of the view by line.
        also: other lines whose work the same events do.
        work_ns: of those of its events whose bytes or operations are known.
        bytes_moved, operations: of these.
    """

    key: str
    kind: Kind
    self_ns: int
    total_ns: int
    count: int = 0
    line: Line | None = None
    also: tuple[Line, ...] = ()
    work_ns: int = 0
    bytes_moved: int = 0
    operations: int = 0


@dataclass
class _Sum:
    self_ns: int = 0
    total_ns: int = 0
    count: int = 0
    line: Line | None = None
    also: dict[Line, None] = field(default_factory=dict)
    work_ns: int = 0
    bytes_moved: int = 0
    operations: int = 0

    def add_own(self, event: Event) -> None:
        self.self_ns += event.duration_ns
        self.count += 1
        if event.bytes_moved is not None or event.operations is not None:
            self.work_ns += event.duration_ns
            self.bytes_moved += event.bytes_moved or 0
            self.operations += event.operations or 0

    def row(self, key: str, kind: Kind) -> Row:
        return Row(
            key,
            kind,
            self.self_ns,
            self.total_ns,
            self.count,
            self.line,
            tuple(self.also),
            self.work_ns,
            self.bytes_moved,
            self.operations,
        )


def make_rows(calls: Sequence[Call], view: View) -> list[Row]:
    """The rows of a view, the most time of their own first; what is no line's comes last."""
    sums: dict[str, _Sum] = {}
    events = [event for call in calls for event in call.events]
    known = [event for event in events if event.lines]
    _VIEWS[view](known, sums)
    rows = [item.row(key, Kind.EVENTS) for key, item in sums.items()]
    rows.sort(key=lambda row: (-row.self_ns, -row.total_ns))
    return [*rows, *_unattributed(events), *_overheads(calls)]


def _by_line(events: Iterable[Event], sums: dict[str, _Sum]) -> None:
    for event in events:
        own = event.lines[0]
        for line in dict.fromkeys((*event.stack, own)):
            item = sums.setdefault(line.location, _Sum(line=line))
            item.total_ns += event.duration_ns
            if line.location == own.location:
                item.add_own(event)
                item.also.update(dict.fromkeys(event.lines[1:]))


def _by_module(events: Iterable[Event], sums: dict[str, _Sum]) -> None:
    for event in events:
        parts = event.module_path.split(".") if event.module_path else []
        for end in range(len(parts) + 1):
            sums.setdefault(
                ".".join(parts[:end]) or "(model)", _Sum()
            ).total_ns += event.duration_ns
        sums[event.module_path or "(model)"].add_own(event)


def _by_op(events: Iterable[Event], sums: dict[str, _Sum]) -> None:
    _by_key(
        events,
        sums,
        lambda event: event.op_kind + (", prepare" if event.part == "prepare" else ""),
    )


def _by_layer(events: Iterable[Event], sums: dict[str, _Sum]) -> None:
    _by_key(
        events,
        sums,
        lambda event: "outside of layers" if event.layer is None else f"layer {event.layer}",
    )


def _by_key(events: Iterable[Event], sums: dict[str, _Sum], key: Callable[[Event], str]) -> None:
    for event in events:
        item = sums.setdefault(key(event), _Sum())
        item.total_ns += event.duration_ns
        item.add_own(event)


_VIEWS: dict[View, Callable[[Iterable[Event], dict[str, _Sum]], None]] = {
    View.LINE: _by_line,
    View.MODULE: _by_module,
    View.OP: _by_op,
    View.LAYER: _by_layer,
}


def _unattributed(events: Iterable[Event]) -> list[Row]:
    sums: dict[str, _Sum] = {}
    for event in events:
        if not event.lines:
            key = event.name if event.backend is None else f"{event.backend}: {event.name}"
            item = sums.setdefault(key, _Sum())
            item.total_ns += event.duration_ns
            item.add_own(event)
    rows = [item.row(key, Kind.UNATTRIBUTED) for key, item in sums.items()]
    return sorted(rows, key=lambda row: -row.self_ns)


def _overheads(calls: Sequence[Call]) -> list[Row]:
    rows = []
    for backend in dict.fromkeys(item.backend for call in calls for item in call.delegate_calls):
        whole = [item for call in calls for item in call.delegate_calls if item.backend == backend]
        inside = [event for call in calls for event in call.events if event.backend == backend]
        time = sum(item.duration_ns for item in whole) - sum(event.duration_ns for event in inside)
        rows.append(Row(f"{backend}, outside its operators", Kind.OVERHEAD, time, time, len(whole)))
    time = sum(call.runtime_overhead_ns for call in calls)
    rows.append(Row("the runtime, between instructions", Kind.OVERHEAD, time, time, len(calls)))
    return rows
